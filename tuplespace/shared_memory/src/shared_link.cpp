#include "shared_link.h"

#include <unistd.h>

#include <utility>

#include "mac.h"
#include "sharing_proof.h"

namespace tuplespace {

namespace {

// A client sends a message every few seconds, or sooner if it has this many segments to return.
constexpr std::size_t kUrgentReturns = 32;

}  // namespace

// The owner of the broker's payloads: the memory, and the segment that must be returned.
struct SharedLink::Loan {
  Loan(std::shared_ptr<const void> m, std::uint64_t i, std::shared_ptr<ReleasedQueue> q)
      : memory(std::move(m)), id(i), queue(std::move(q)) {}
  ~Loan() { queue->Add(id); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  std::shared_ptr<const void> memory;
  std::uint64_t id;
  std::shared_ptr<ReleasedQueue> queue;
};

SharedLink::SharedLink(std::shared_ptr<SharedPool> pool, int wake_fd)
    : pool_(std::move(pool)), wake_fd_(wake_fd), released_(std::make_shared<ReleasedQueue>()) {
  if (pool_) probe_ = SharingProbe::Make();
}

SharedLink::~SharedLink() {
  SessionEnded();
}

std::optional<Sharing> SharedLink::Offer(std::uint64_t nonce) {
  if (!probe_) return std::nullopt;
  // A joined channel belongs to its session. This Hello begins another session, even if the end of
  // the earlier one was not reported yet; a later report would affect the channel that is offered
  // here.
  SessionEnded();
  nonce_ = nonce;
  Sharing offer{static_cast<std::int32_t>(getpid()), probe_->fd(), {}, {}};
  offer.proof = HelloProof(probe_->secret(), nonce, offer);
  if (!channel_) channel_ = Channel::Make();
  if (channel_) {
    offer.ring_fd = channel_->fd();
    offer.wake_fd = wake_fd_;
  }
  return offer;
}

void SharedLink::Joined(std::uint64_t session, const std::optional<Sharing>& answer) {
  std::unique_ptr<Channel> offered = std::move(channel_);
  SessionEnded();
  session_ = session;
  if (!probe_ || !answer) return;
  can_put_ = IsSameMac(answer->sees, BrokerSeesProof(probe_->secret(), nonce_));
  auto files = PeerFiles::Of(answer->pid);
  const auto secret = files ? SharingProbe::Read(*files, answer->fd) : std::nullopt;
  if (secret && IsSameMac(answer->proof, WelcomeProof(*secret, nonce_, *answer))) {
    files_ = std::move(files);
    sees_ = ClientSeesProof(*secret, session);
  }
  if (!can_put_ || sees_.empty() || !offered || answer->ring_fd < 0) return;
  if (offered->Attach(*files_, answer->ring_fd, answer->wake_fd)) channel_ = std::move(offered);
}

void SharedLink::SessionEnded() {
  if (session_ == 0) return;
  session_ = 0;
  can_put_ = failed_ = false;
  files_.reset();
  channel_.reset();
  sees_.clear();
  mapped_.clear();
  // Payloads of the old session need not be returned.
  released_ = std::make_shared<ReleasedQueue>();
  if (pool_) pool_->SessionEnded();
}

void SharedLink::GiveUp() {
  SessionEnded();
  probe_.reset();
}

void SharedLink::Receive(const BrokerSegments& message) {
  if (!pool_) return;
  for (const BrokerSegments::Freed& freed : message.freed) {
    if (freed.spoilt) {
      pool_->Spoilt(freed.id, freed.count);
    } else {
      pool_->Freed(freed.id, freed.count);
    }
  }
  for (const std::uint64_t id : message.refused) pool_->Refused(id);
  for (const std::uint64_t id : message.gone) mapped_.erase(id);
}

Payload SharedLink::Shared(Payload payload) {
  if (!can_put_ || payload.size() < SharedPool::kMinBytes || pool_->CanLend(payload)) {
    return payload;
  }
  return pool_->CopyOf(payload);
}

std::optional<SegmentRef> SharedLink::Name(const Payload& payload) {
  if (!can_put_ || !pool_->CanLend(payload)) return std::nullopt;
  const SharedRegion& region = *payload.region();
  pool_->Lend(region);
  pool_->RememberHash(payload);
  return SegmentRef{region.id, payload.size(), region.fd};
}

std::optional<Payload> SharedLink::Open(std::uint64_t session, const SegmentRef& ref) {
  // A message of an earlier session is not used.
  if (session != session_) return Payload{};
  if (ref.hash && pool_) {
    if (SharedPool::Block own = pool_->Find(*ref.hash, ref.bytes)) {
      const std::byte* data = own->data;
      auto loan = std::make_shared<Loan>(std::move(own), ref.id, released_);
      return Payload(std::move(loan), data, ref.bytes).WithHash(ref.hash);
    }
  }
  auto it = mapped_.find(ref.id);
  if (it == mapped_.end() && files_) {
    const auto file = files_->Open(ref.fd);
    auto mapping = file ? MapForReading(*file, /*populate=*/true) : std::nullopt;
    if (mapping) {
      it = mapped_.emplace(ref.id, std::make_shared<Mapping>(*std::move(mapping))).first;
    }
  }
  if (it == mapped_.end() || ref.bytes > it->second->size()) {
    failed_ = true;
    return std::nullopt;
  }
  const std::byte* data = it->second->data();
  return Payload(std::make_shared<Loan>(it->second, ref.id, released_), data, ref.bytes);
}

bool SharedLink::HasUrgentOutput() const {
  return session_ != 0 && (!sees_.empty() || released_->size() >= kUrgentReturns);
}

std::optional<ClientSegments> SharedLink::TakeOutput() {
  if (session_ == 0 || !pool_) return std::nullopt;
  ClientSegments message{std::exchange(sees_, {}), released_->Take(), pool_->TakeDropped()};
  if (message.sees.empty() && message.returned.empty() && message.dropped.empty()) {
    return std::nullopt;
  }
  return message;
}

}  // namespace tuplespace
