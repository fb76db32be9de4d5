#include "peer_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace tuplespace {

namespace {

// So many payloads in a row with wrong bytes are no accident: each costs its whole transfer, and
// comes through the broker then.
constexpr std::uint32_t kMostWrong = 2;

const char* WordOf(FetchRefusal why) {
  switch (why) {
    case FetchRefusal::kTicket:
      return "it does not accept the ticket";
    case FetchRefusal::kExpired:
      return "the ticket has expired";
    case FetchRefusal::kGone:
      return "it does not have the payload";
    case FetchRefusal::kBusy:
      return "it is too busy";
  }
  return "it refuses";
}

}  // namespace

void PeerReader::Fetch(WantedPayload wanted, std::int64_t now_us) {
  failed_ = false;
  waiting_.push_back(std::move(wanted));
  BeginWaiting(now_us);
}

void PeerReader::BeginWaiting(std::int64_t now_us) {
  while (!waiting_.empty() && open_.size() < limits_.open_fetches) {
    Begin(std::move(waiting_.front()), now_us);
    waiting_.pop_front();
  }
}

void PeerReader::Begin(WantedPayload wanted, std::int64_t now_us) {
  const std::uint64_t id = wanted.id;
  output_.push_back(
      EncodePeer(FetchFrame{id, wanted.ticket, limits_.window_bytes, wanted.reader, wanted.key}));
  const std::int64_t its_us = MostUs(wanted.bytes);
  std::int64_t others_us = 0;
  for (auto& [other, open] : open_) {
    others_us += MostUs(open.wanted.bytes - open.received_bytes);
    open.end_us += its_us;
  }
  Open& begun = open_[id];
  begun.wanted = std::move(wanted);
  begun.begun_us = now_us;
  begun.end_us = now_us + limits_.connect_us + limits_.stall_us + others_us + its_us;
}

// How long these bytes may take.
std::int64_t PeerReader::MostUs(std::uint64_t bytes) const {
  constexpr std::uint64_t kMaxBytes = 1ull << 40;  // no payload has so many
  return static_cast<std::int64_t>(std::min(bytes, kMaxBytes) * 1'000'000 /
                                   limits_.least_bytes_per_s);
}

// The others may no longer take the time of its bytes, which will not come.
void PeerReader::End(OpenFetches::iterator at) {
  const std::int64_t its_us = MostUs(at->second.wanted.bytes - at->second.received_bytes);
  open_.erase(at);
  for (auto& [other, open] : open_) open.end_us -= its_us;
}

void PeerReader::Forget(std::uint64_t id) {
  if (const auto at = open_.find(id); at != open_.end()) {
    End(at);
    output_.push_back(EncodePeer(StopFrame{id}));
    strays_left_ += limits_.window_bytes / kMinPieceBytes + 1;  // are on their way
  }
  std::erase_if(waiting_, [id](const WantedPayload& wanted) { return wanted.id == id; });
}

void PeerReader::Connected(std::int64_t now_us) {
  heard_ = true;
  progress_us_ = now_us;
}

void PeerReader::Receive(std::span<const std::byte> message, std::int64_t now_us) {
  const std::optional<ToReader> decoded = DecodeToReader(message);
  if (!decoded) return Fail("it sent a malformed message");
  if (const auto* piece = std::get_if<PieceFrame>(&*decoded)) {
    OnPiece(*piece, now_us);
  } else {
    OnRefusal(std::get<RefusalFrame>(*decoded));
  }
  BeginWaiting(now_us);
}

// An honest holder sends it only if it had not heard yet that the fetch is stopped or whole.
void PeerReader::OnStray() {
  if (strays_left_ == 0) return Fail("it sent what it was not asked for");
  --strays_left_;
}

void PeerReader::OnPiece(const PieceFrame& piece, std::int64_t now_us) {
  const auto at = open_.find(piece.transfer);
  if (at == open_.end()) return OnStray();
  Open& open = at->second;
  const bool first = open.received_bytes == 0;
  if (piece.total_bytes != open.wanted.bytes || piece.offset != open.received_bytes ||
      (!first && piece.hash != open.hash)) {
    return Fail(fmt::format("it sent bytes {} of {} where {} of {} were due", piece.offset,
                            piece.total_bytes, open.received_bytes, open.wanted.bytes));
  }
  const bool last = piece.bytes.size() == piece.total_bytes - piece.offset;
  if (!last && piece.bytes.size() < kMinPieceBytes) {
    return Fail(fmt::format("it sent a piece of {} bytes", piece.bytes.size()));
  }
  heard_ = true;
  progress_us_ = now_us;
  if (first && open.wanted.hash && piece.hash != *open.wanted.hash) {
    return OnOtherBytes(piece.transfer);
  }
  if (first) {
    open.hash = piece.hash;
    try {
      open.memory = std::make_shared_for_overwrite<std::byte[]>(open.wanted.bytes);
    } catch (const std::bad_alloc&) {
      fetched_.push_back({piece.transfer, {}, "there is no memory for it"});
      return Forget(piece.transfer);
    }
  }
  std::memcpy(open.memory.get() + open.received_bytes, piece.bytes.data(), piece.bytes.size());
  open.hasher.Add({open.memory.get() + open.received_bytes, piece.bytes.size()});
  open.received_bytes += piece.bytes.size();
  output_.push_back(EncodePeer(MoreFrame{piece.transfer, open.received_bytes}));
  if (open.received_bytes == open.wanted.bytes) Finish(at);
}

// The space has others under this key, and what the reader reads must be what everybody reads.
void PeerReader::OnOtherBytes(std::uint64_t id) {
  const char* const why = "it has other bytes than the space";
  if (++wrong_in_a_row_ >= kMostWrong) return Fail(why);
  fetched_.push_back({id, {}, why});
  Forget(id);
}

void PeerReader::Finish(OpenFetches::iterator at) {
  Open& open = at->second;
  FetchedPayload fetched;
  fetched.id = at->first;
  if (open.hasher.Hash() == open.hash) {
    const std::byte* const begin = open.memory.get();
    fetched.payload =
        Payload(std::move(open.memory), begin, open.received_bytes).WithHash(open.hash);
    delivered_ = true;
    wrong_in_a_row_ = 0;
  } else {
    fetched.why = "the bytes do not have the hash that came with them";
    if (++wrong_in_a_row_ >= kMostWrong) return Fail(fetched.why);
  }
  fetched_.push_back(std::move(fetched));
  End(at);
  ++strays_left_;  // it may be withdrawn before the holder hears that it is whole
}

void PeerReader::OnRefusal(const RefusalFrame& refusal) {
  const auto at = open_.find(refusal.transfer);
  if (at == open_.end()) return OnStray();
  heard_ = true;
  const bool ticket_expired = refusal.why == FetchRefusal::kExpired;
  fetched_.push_back({at->first, {}, WordOf(refusal.why), ticket_expired});
  End(at);
}

void PeerReader::Fail(const std::string& why) {
  failed_ = true;
  heard_ = false;
  output_.clear();
  for (const auto& [id, open] : open_) fetched_.push_back({id, {}, why});
  for (const WantedPayload& wanted : waiting_) fetched_.push_back({wanted.id, {}, why});
  open_.clear();
  waiting_.clear();
}

std::int64_t PeerReader::StalledUs() const {
  std::int64_t first_us = kForeverUs;
  for (const auto& [id, open] : open_) first_us = std::min(first_us, open.begun_us);
  return std::max(first_us, progress_us_) + PatienceUs();
}

void PeerReader::Tick(std::int64_t now_us) {
  BeginWaiting(now_us);
  if (open_.empty()) return;
  if (now_us >= StalledUs()) {
    return Fail(fmt::format("nothing came of it for {} ms", PatienceUs() / 1000));
  }
  const auto late = std::find_if(open_.begin(), open_.end(), [now_us](const auto& entry) {
    return now_us >= entry.second.end_us;
  });
  if (late == open_.end()) return;
  const Open& open = late->second;
  Fail(fmt::format("only {} of {} bytes came within {} s", open.received_bytes, open.wanted.bytes,
                   (now_us - open.begun_us) / 1'000'000));
}

std::int64_t PeerReader::NextDeadlineUs() const {
  if (open_.empty()) return kForeverUs;
  std::int64_t next_us = StalledUs();
  for (const auto& [id, open] : open_) next_us = std::min(next_us, open.end_us);
  return next_us;
}

std::vector<std::vector<std::byte>> PeerReader::TakeOutput() {
  return std::exchange(output_, {});
}

std::vector<FetchedPayload> PeerReader::TakeFetched() {
  return std::exchange(fetched_, {});
}

}  // namespace tuplespace
