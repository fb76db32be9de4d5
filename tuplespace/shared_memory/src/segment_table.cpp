#include "segment_table.h"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "mac.h"
#include "sharing_proof.h"

namespace tuplespace {

struct SegmentTable::Segment {
  UniqueFd file;
  Mapping mapping;
  SharedRegion region;  // the region of payloads made here
  ClientId producer;
  std::uint64_t producer_session = 0;  // 0: it has ended
  std::uint64_t producer_id = 0;
  std::uint64_t named = 0;  // by its producer, since it was last told that the segment is free
  std::weak_ptr<Use> use;   // while there are payloads
  bool spoilt = false;
  // Clients and sessions that were ever sent it.
  std::vector<std::pair<ClientId, std::uint64_t>> readers;
};

// The owner of payloads in a segment.
struct SegmentTable::Use {
  Use(std::shared_ptr<Segment> s, std::shared_ptr<ReleasedQueue> q)
      : segment(std::move(s)), queue(std::move(q)) {}
  ~Use() { queue->Add(segment->region.id); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  std::shared_ptr<Segment> segment;
  std::shared_ptr<ReleasedQueue> queue;
};

class SegmentTable::Opener : public SegmentOpener {
 public:
  explicit Opener(SegmentTable& table) : table_(table) {}
  std::optional<Payload> Open(std::uint64_t session, const SegmentRef& ref) override {
    return table_.Open(client, session, ref);
  }
  ClientId client;

 private:
  SegmentTable& table_;
};

class SegmentTable::Namer : public SegmentNamer {
 public:
  explicit Namer(SegmentTable& table) : table_(table) {}
  std::optional<SegmentRef> Name(const Payload& payload) override {
    return table_.Name(client, payload);
  }
  ClientId client;

 private:
  SegmentTable& table_;
};

SegmentTable::SegmentTable(std::uint64_t limit)
    : limit_(limit),
      probe_(limit > 0 ? SharingProbe::Make() : std::nullopt),
      opener_(std::make_unique<Opener>(*this)),
      namer_(std::make_unique<Namer>(*this)) {}

SegmentTable::~SegmentTable() = default;

std::optional<Sharing> SegmentTable::Joined(const ClientId& client, std::uint64_t session,
                                            std::uint64_t nonce,
                                            const std::optional<Sharing>& offer) {
  if (!probe_ || !offer) return std::nullopt;
  Sharing answer{static_cast<std::int32_t>(getpid()), probe_->fd(), {}, {}};
  answer.proof = WelcomeProof(probe_->secret(), nonce, answer);
  auto files = PeerFiles::Of(offer->pid);
  const auto secret = files ? SharingProbe::Read(*files, offer->fd) : std::nullopt;
  // A client may claim any pid and fd, even those of another client or of this process.
  const bool proven = secret && IsSameMac(offer->proof, HelloProof(*secret, nonce, *offer));
  if (proven) answer.sees = BrokerSeesProof(*secret, nonce);
  Peer& peer = peers_[client];
  if (peer.session != session) {
    assert(peer.session == 0);
    peer.session = session;
    if (proven) peer.files = std::move(files);
  }
  return answer;
}

void SegmentTable::Receive(const ClientId& client, std::uint64_t session,
                           const ClientSegments& message) {
  const auto it = peers_.find(client);
  if (it == peers_.end() || it->second.session != session) return;
  Peer& peer = it->second;
  if (!message.sees.empty()) {
    peer.reads = IsSameMac(message.sees, ClientSeesProof(probe_->secret(), session));
  }
  for (const std::uint64_t id : message.returned) {
    const auto loan = peer.loans.find(id);
    if (loan != peer.loans.end() && --loan->second.count == 0) peer.loans.erase(loan);
  }
  for (const std::uint64_t id : message.dropped) {
    const auto produced = peer.produced.find(id);
    if (produced == peer.produced.end()) continue;
    const std::shared_ptr<Segment> segment = produced->second;
    segment->producer_session = 0;
    peer.produced.erase(produced);
    if (segment->use.expired()) Close(segment);
  }
}

void SegmentTable::SessionEnded(const ClientId& client, std::uint64_t session) {
  const auto it = peers_.find(client);
  if (it == peers_.end() || it->second.session != session) return;
  const Peer peer = std::move(it->second);
  peers_.erase(it);
  // The client may only be stopped, or behind a broken connection, and continue to read.
  for (const auto& [id, loan] : peer.loans) segments_.at(id)->spoilt = true;
  for (const auto& [id, segment] : peer.produced) {
    segment->producer_session = 0;
    if (segment->use.expired()) Close(segment);
  }
}

bool SegmentTable::Opens(const ClientId& client) const {
  const auto it = peers_.find(client);
  return it != peers_.end() && it->second.files.has_value();
}

SegmentOpener* SegmentTable::From(const ClientId& client) {
  const auto it = peers_.find(client);
  if (it == peers_.end()) return nullptr;
  opener_->client = client;
  return opener_.get();
}

SegmentNamer* SegmentTable::To(const ClientId& client) {
  const auto it = peers_.find(client);
  if (it == peers_.end() || !it->second.reads) return nullptr;
  namer_->client = client;
  return namer_.get();
}

std::optional<Payload> SegmentTable::Open(const ClientId& client, std::uint64_t session,
                                          const SegmentRef& ref) {
  Peer& peer = peers_.at(client);
  // A message of an earlier session is not used.
  if (peer.session != session) return Payload{};
  auto it = peer.produced.find(ref.id);
  if (it == peer.produced.end()) {
    std::shared_ptr<Segment> segment = OpenNew(peer, ref);
    if (segment) {
      segment->producer = client;
      it = peer.produced.emplace(ref.id, std::move(segment)).first;
    }
  }
  if (it == peer.produced.end() || ref.bytes == 0 ||
      ref.bytes > it->second->region.capacity_bytes) {
    OutputOf(client, peer).refused.push_back(ref.id);
    return std::nullopt;
  }
  const std::shared_ptr<Segment>& segment = it->second;
  ++segment->named;
  std::shared_ptr<Use> use = segment->use.lock();
  if (!use) segment->use = use = std::make_shared<Use>(segment, released_);
  return Payload(std::move(use), segment->region.data, ref.bytes, &segment->region);
}

std::shared_ptr<SegmentTable::Segment> SegmentTable::OpenNew(Peer& peer, const SegmentRef& ref) {
  if (!peer.files || segments_.size() >= limit_) return nullptr;
  auto file = peer.files->Open(ref.fd);
  if (!file) return nullptr;
  // The broker reads payloads only if a key is put twice, or for a client on another host.
  auto mapping = MapForReading(*file, /*populate=*/false);
  if (!mapping) return nullptr;
  auto segment = std::make_shared<Segment>();
  segment->file = *std::move(file);
  segment->mapping = *std::move(mapping);
  segment->producer_session = peer.session;
  segment->producer_id = ref.id;
  segment->region = {this, next_id_++, segment->file.get(), segment->mapping.data(),
                     segment->mapping.size()};
  segments_.emplace(segment->region.id, segment);
  return segment;
}

std::optional<SegmentRef> SegmentTable::Name(const ClientId& client, const Payload& payload) {
  const SharedRegion& region = *payload.region();
  if (region.home != this) return std::nullopt;
  Peer& peer = peers_.at(client);
  Segment& segment = *segments_.at(region.id);
  Loan& loan = peer.loans[region.id];
  if (loan.count++ == 0) {
    loan.payload = payload;
    // Sessions that have ended need no notice.
    if (segment.readers.size() > peers_.size()) {
      std::erase_if(segment.readers, [this](const auto& reader) {
        const auto it = peers_.find(reader.first);
        return it == peers_.end() || it->second.session != reader.second;
      });
    }
    const std::pair reader{client, peer.session};
    if (std::find(segment.readers.begin(), segment.readers.end(), reader) ==
        segment.readers.end()) {
      segment.readers.push_back(reader);
    }
  }
  return SegmentRef{region.id, payload.size(), segment.file.get()};
}

// Its last payload may be gone.
void SegmentTable::Settle(std::uint64_t id) {
  const auto it = segments_.find(id);
  if (it == segments_.end() || !it->second->use.expired()) return;
  const std::shared_ptr<Segment> segment = it->second;
  const auto peer = peers_.find(segment->producer);
  if (segment->producer_session == 0 || peer == peers_.end()) return Close(segment);
  assert(peer->second.session == segment->producer_session);
  if (segment->named == 0) return;  // two uses ended one after the other
  OutputOf(segment->producer, peer->second)
      .freed.push_back({segment->producer_id, segment->named, segment->spoilt});
  segment->named = 0;
  if (!segment->spoilt) return;
  peer->second.produced.erase(segment->producer_id);
  Close(segment);
}

void SegmentTable::Close(const std::shared_ptr<Segment>& segment) {
  for (const auto& [client, session] : segment->readers) {
    const auto peer = peers_.find(client);
    if (peer == peers_.end() || peer->second.session != session) continue;
    OutputOf(client, peer->second).gone.push_back(segment->region.id);
  }
  segments_.erase(segment->region.id);
}

BrokerSegments& SegmentTable::OutputOf(const ClientId& client, Peer& peer) {
  if (peer.output.empty()) dirty_.push_back(client);
  return peer.output;
}

std::vector<SegmentTable::Delivery> SegmentTable::TakeOutput() {
  for (const std::uint64_t id : released_->Take()) Settle(id);
  std::vector<Delivery> output;
  for (ClientId& client : dirty_) {
    const auto it = peers_.find(client);
    if (it == peers_.end() || it->second.output.empty()) continue;
    output.push_back({std::move(client), it->second.session, std::exchange(it->second.output, {})});
  }
  dirty_.clear();
  return output;
}

}  // namespace tuplespace
