#include "peer_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace tuplespace {

namespace {

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
  if (idle()) progress_us_ = now_us;
  failed_ = false;
  waiting_.push_back(std::move(wanted));
  while (!waiting_.empty() && open_.size() < limits_.open_fetches) {
    Begin(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void PeerReader::Begin(WantedPayload wanted) {
  const std::uint64_t id = wanted.id;
  output_.push_back(
      EncodePeer(FetchFrame{id, wanted.ticket, limits_.window_bytes, wanted.reader, wanted.key}));
  open_[id].wanted = std::move(wanted);
}

void PeerReader::Forget(std::uint64_t id) {
  if (open_.erase(id) > 0) output_.push_back(EncodePeer(StopFrame{id}));
  std::erase_if(waiting_, [id](const WantedPayload& wanted) { return wanted.id == id; });
}

void PeerReader::Receive(std::span<const std::byte> message, std::int64_t now_us) {
  const std::optional<ToReader> decoded = DecodeToReader(message);
  if (!decoded) return Fail("it sent a malformed message");
  heard_ = true;
  progress_us_ = now_us;
  if (const auto* piece = std::get_if<PieceFrame>(&*decoded)) {
    OnPiece(*piece);
  } else {
    OnRefusal(std::get<RefusalFrame>(*decoded));
  }
  while (!waiting_.empty() && open_.size() < limits_.open_fetches) {
    Begin(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void PeerReader::OnPiece(const PieceFrame& piece) {
  const auto at = open_.find(piece.transfer);
  if (at == open_.end()) return;  // it was forgotten or had failed
  Open& open = at->second;
  const bool first = open.received_bytes == 0;
  if (piece.total_bytes != open.wanted.bytes || piece.offset != open.received_bytes ||
      (!first && piece.hash != open.hash)) {
    return Fail(fmt::format("it sent bytes {} of {} where {} of {} were due", piece.offset,
                            piece.total_bytes, open.received_bytes, open.wanted.bytes));
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

void PeerReader::Finish(OpenFetches::iterator at) {
  Open& open = at->second;
  FetchedPayload& fetched = fetched_.emplace_back();
  fetched.id = at->first;
  if (open.hasher.Hash() == open.hash) {
    const std::byte* const begin = open.memory.get();
    fetched.payload =
        Payload(std::move(open.memory), begin, open.received_bytes).WithHash(open.hash);
  } else {
    fetched.why = "the bytes do not have the hash that came with them";
  }
  open_.erase(at);
}

void PeerReader::OnRefusal(const RefusalFrame& refusal) {
  const auto at = open_.find(refusal.transfer);
  if (at == open_.end()) return;
  fetched_.push_back({at->first, {}, WordOf(refusal.why)});
  open_.erase(at);
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

void PeerReader::Tick(std::int64_t now_us) {
  if (!idle() && now_us - progress_us_ >= PatienceUs()) {
    Fail(fmt::format("it sent nothing for {} ms", (now_us - progress_us_) / 1000));
  }
}

std::int64_t PeerReader::NextDeadlineUs() const {
  return idle() ? kForeverUs : progress_us_ + PatienceUs();
}

std::vector<std::vector<std::byte>> PeerReader::TakeOutput() {
  return std::exchange(output_, {});
}

std::vector<FetchedPayload> PeerReader::TakeFetched() {
  return std::exchange(fetched_, {});
}

}  // namespace tuplespace
