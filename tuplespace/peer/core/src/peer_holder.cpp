#include "peer_holder.h"

#include <algorithm>
#include <utility>

namespace tuplespace {

namespace {
constexpr std::size_t kMaxPeersRemembered = 4096;
// The thread that empties the queues says nothing. Only peers that have stopped transfers, or that
// lie, wait for it.
constexpr std::int64_t kLookAtQueuesUs = 10'000;

using QueuedBytes = std::shared_ptr<std::atomic<std::uint64_t>>;

// Counts these bytes until the result is freed.
std::shared_ptr<const void> CountQueued(const QueuedBytes& of_peer, const QueuedBytes& of_all,
                                        std::uint64_t bytes) {
  *of_peer += bytes;
  *of_all += bytes;
  return {of_peer.get(), [of_peer, of_all, bytes](const void*) {
            *of_peer -= bytes;
            *of_all -= bytes;
          }};
}

}  // namespace

void PeerHolder::SessionBegan(std::uint64_t session, std::int64_t broker_us, std::int64_t now_us) {
  if (tickets_.session() != session) SessionEnded();
  tickets_.Begin(session, broker_us, now_us);
}

void PeerHolder::SessionEnded() {
  tickets_.End();
  while (!transfers_.empty()) EndRefused(transfers_.begin());
  for (const Key& key : asks_.due) asks_.open.erase(key);
  asks_.due.clear();
}

bool PeerHolder::Receive(const std::string& peer, std::string_view public_key,
                         std::span<const std::byte> message, std::int64_t now_us) {
  now_us_ = now_us;
  std::optional<ToHolder> decoded = DecodeToHolder(message);
  if (!decoded) {
    ++counts_.malformed;
    return NoteRefused(peer);
  }
  if (auto* fetch = std::get_if<FetchFrame>(&*decoded)) {
    return OnFetch(peer, public_key, std::move(*fetch));
  }
  if (const auto* more = std::get_if<MoreFrame>(&*decoded)) {
    OnMore(peer, *more);
  } else if (const auto* stop = std::get_if<StopFrame>(&*decoded)) {
    return OnStop(peer, *stop);
  }
  return true;
}

bool PeerHolder::HadTicket(const std::string& peer) const {
  const auto known = peers_.find(peer);
  return known != peers_.end() && known->second.had_ticket;
}

bool PeerHolder::OnFetch(const std::string& peer, std::string_view public_key, FetchFrame&& fetch) {
  const auto why = RefusalOf(peer, public_key, fetch);
  if (!why || *why == FetchRefusal::kBusy) peers_[peer].had_ticket = true;
  if (why) {
    Refuse(peer, fetch.transfer, *why);
    const bool honest = *why == FetchRefusal::kBusy || *why == FetchRefusal::kExpired;
    return honest || NoteRefused(peer);
  }
  Begin(peer, std::move(fetch));
  return true;
}

void PeerHolder::Begin(const std::string& peer, FetchFrame&& fetch) {
  const auto at = transfers_.insert(transfers_.end(), Transfer{});
  at->peer = peer;
  at->number = fetch.transfer;
  at->key = std::move(fetch.key);
  at->window_bytes = std::min<std::uint64_t>(fetch.window_bytes, limits_.window_bytes);
  SomeTransfers& of_key = of_key_[at->key];
  if (of_key.empty()) {
    if (asks_.open.insert(at->key).second) asks_.due.push_back(at->key);
  } else {  // it has been asked for
    at->payload = of_key.front()->payload;
    at->hash = of_key.front()->hash;
  }
  of_key.push_back(at);
  Peer& of_peer = peers_[peer];
  // A new peer waits for a round, or whoever connects again would be served before all others.
  if (of_peer.transfers.empty()) of_peer.turn = ++turns_.last;
  of_peer.transfers.push_back(at);
  NoteReady(of_peer);
}

std::optional<FetchRefusal> PeerHolder::RefusalOf(const std::string& peer,
                                                  std::string_view public_key,
                                                  const FetchFrame& fetch) {
  const TicketVerdict verdict =
      tickets_.Check(fetch.ticket, fetch.reader, public_key, fetch.key.bytes(), now_us_);
  if (verdict == TicketVerdict::kExpired) {
    ++counts_.expired;
    return FetchRefusal::kExpired;
  }
  if (verdict == TicketVerdict::kForged || Find(peer, fetch.transfer) != transfers_.end()) {
    ++counts_.forged;
    return FetchRefusal::kTicket;
  }
  const auto known = peers_.find(peer);
  const std::size_t of_peer = known == peers_.end() ? 0 : known->second.transfers.size();
  if (of_peer >= limits_.transfers_per_peer || transfers_.size() >= limits_.transfers) {
    ++counts_.busy;
    return FetchRefusal::kBusy;
  }
  return std::nullopt;
}

bool PeerHolder::NoteRefused(const std::string& peer) {
  // ZeroMQ gives each connection an id of its own, so refused ones that have gone can be forgotten.
  if (peers_.size() >= kMaxPeersRemembered) {
    std::erase_if(peers_, [](const auto& entry) {
      return entry.second.transfers.empty() && *entry.second.queued_bytes == 0;
    });
  }
  return ++peers_[peer].refused < limits_.refused_per_peer;
}

void PeerHolder::Refuse(const std::string& peer, std::uint64_t number, FetchRefusal why) {
  // Refusals wait only for the next turn. A peer that floods is disconnected before there are more.
  if (refusals_.size() >= limits_.transfers) return;
  refusals_.push_back({peer, EncodePeer(RefusalFrame{number, why}), {}, {}});
}

PeerHolder::Transfers::iterator PeerHolder::Find(const std::string& peer, std::uint64_t number) {
  const auto known = peers_.find(peer);
  if (known == peers_.end()) return transfers_.end();
  const SomeTransfers& of_peer = known->second.transfers;
  const auto at = std::find_if(of_peer.begin(), of_peer.end(),
                               [&](const auto& transfer) { return transfer->number == number; });
  return at == of_peer.end() ? transfers_.end() : *at;
}

PeerHolder::SomeTransfers PeerHolder::OfKey(const Key& key) const {
  const auto known = of_key_.find(key);
  return known == of_key_.end() ? SomeTransfers() : known->second;
}

PeerHolder::SomeTransfers PeerHolder::OfPeer(const std::string& peer) const {
  const auto known = peers_.find(peer);
  return known == peers_.end() ? SomeTransfers() : known->second.transfers;
}

void PeerHolder::OnMore(const std::string& peer, const MoreFrame& more) {
  const auto at = Find(peer, more.transfer);
  // Bytes that were not sent cannot have been received.
  if (at == transfers_.end() || more.received_bytes > at->sent_bytes) return;
  if (more.received_bytes <= at->confirmed_bytes) return;
  Peer& of_peer = peers_.at(peer);
  of_peer.heard_us = now_us_;
  Confirm(*at, of_peer, more.received_bytes - at->confirmed_bytes);
  NoteReady(of_peer);
  if (!at->payload || at->confirmed_bytes < at->payload->size()) return;
  ++counts_.sent_payloads;
  counts_.sent_bytes += at->payload->size();
  if (of_peer.refused > 0) --of_peer.refused;
  End(at);
}

// A fetch may have made the client copy a payload from a device, and a stop costs the reader
// nothing. Readers that give up a few of their fetches are honest.
bool PeerHolder::OnStop(const std::string& peer, const StopFrame& stop) {
  const auto at = Find(peer, stop.transfer);
  if (at == transfers_.end()) return true;
  const bool in_vain = at->confirmed_bytes == 0;
  End(at);
  return !in_vain || NoteRefused(peer);
}

void PeerHolder::Confirm(Transfer& transfer, Peer& peer, std::uint64_t bytes) {
  transfer.confirmed_bytes += bytes;
  in_flight_bytes_ -= bytes;
  peer.in_flight_bytes -= bytes;
}

// A transfer for which Begin found no memory may be in one index only.
void PeerHolder::End(Transfers::iterator at) {
  if (const auto of_peer = peers_.find(at->peer); of_peer != peers_.end()) {
    Peer& peer = of_peer->second;
    Confirm(*at, peer, at->in_flight());
    std::erase(peer.transfers, at);
    NoteReady(peer);
    const bool forget = peer.transfers.empty() && peer.refused == 0 && *peer.queued_bytes == 0;
    if (forget) peers_.erase(of_peer);
  }
  if (const auto of_key = of_key_.find(at->key); of_key != of_key_.end()) {
    std::erase(of_key->second, at);
    if (of_key->second.empty()) of_key_.erase(of_key);
  }
  transfers_.erase(at);
}

void PeerHolder::EndRefused(Transfers::iterator at) {
  Refuse(at->peer, at->number, FetchRefusal::kGone);
  End(at);
}

void PeerHolder::PeerGone(const std::string& peer) {
  for (const auto at : OfPeer(peer)) End(at);
  peers_.erase(peer);
  std::erase_if(refusals_, [&](const Outgoing& refusal) { return refusal.peer == peer; });
}

std::vector<Key> PeerHolder::TakeAsked() {
  return std::exchange(asks_.due, {});
}

void PeerHolder::Provide(const Key& key, const Payload& payload, std::int64_t now_us) {
  now_us_ = now_us;
  asks_.open.erase(key);
  std::optional<PayloadHash> hash;
  for (const auto at : OfKey(key)) {
    if (at->payload) continue;
    if (payload.empty()) {
      ++counts_.gone;
      EndRefused(at);
      continue;
    }
    if (!hash) hash = payload.hash() ? *payload.hash() : HashOf(payload.bytes());
    at->payload = payload;
    at->hash = *hash;
    NoteReady(peers_.at(at->peer));
  }
}

void PeerHolder::Withdraw(const Key& key) {
  if (std::erase(asks_.due, key) > 0) asks_.open.erase(key);
  for (const auto at : OfKey(key)) {
    ++counts_.gone;
    EndRefused(at);
  }
}

PeerHolder::SomeTransfers::const_iterator PeerHolder::FirstToSend(const Peer& peer) const {
  if (peer.in_flight_bytes + kPieceBytes > limits_.in_flight_bytes_per_peer) {
    return peer.transfers.end();
  }
  return std::find_if(peer.transfers.begin(), peer.transfers.end(), [](const auto& transfer) {
    if (!transfer->payload || transfer->sent_bytes == transfer->payload->size()) return false;
    // If the window is small, one piece at a time may be in flight.
    const std::uint64_t in_flight = transfer->in_flight();
    return in_flight == 0 || in_flight + kPieceBytes <= transfer->window_bytes;
  });
}

bool PeerHolder::HasRoom(const Bytes& queued, std::uint64_t limit) {
  return *queued + kPieceBytes <= limit;
}

void PeerHolder::NoteReady(Peer& peer) {
  turns_.ready.erase(peer.turn);
  turns_.full.erase(peer.turn);
  if (FirstToSend(peer) == peer.transfers.end()) return;
  const bool has_room = HasRoom(peer.queued_bytes, limits_.in_flight_bytes_per_peer);
  (has_room ? turns_.ready : turns_.full).emplace(peer.turn, &peer);
}

PeerHolder::Outgoing PeerHolder::NextPiece(Transfer& transfer, Peer& peer) {
  const std::uint64_t left = transfer.payload->size() - transfer.sent_bytes;
  const std::uint64_t bytes = std::min<std::uint64_t>(left, kPieceBytes);
  PieceFrame piece{transfer.number, transfer.payload->size(), transfer.sent_bytes, transfer.hash,
                   transfer.payload->bytes().subspan(transfer.sent_bytes, bytes)};
  if (peer.in_flight_bytes == 0) {  // until now there was nothing to confirm
    peer.heard_us = now_us_;
    next_deadline_us_ = std::min(next_deadline_us_, now_us_ + limits_.stall_us);
  }
  transfer.sent_bytes += bytes;
  in_flight_bytes_ += bytes;
  peer.in_flight_bytes += bytes;
  return {transfer.peer, EncodePeerHead(piece), piece.bytes, *transfer.payload,
          CountQueued(peer.queued_bytes, queued_bytes_, bytes)};
}

std::optional<PeerHolder::Outgoing> PeerHolder::TakeOutput() {
  if (!refusals_.empty()) {
    Outgoing refusal = std::move(refusals_.front());
    refusals_.pop_front();
    return refusal;
  }
  if (turns_.ready.empty()) return std::nullopt;
  if (in_flight_bytes_ + kPieceBytes > limits_.in_flight_bytes) return std::nullopt;
  if (!HasRoom(queued_bytes_, limits_.in_flight_bytes)) return std::nullopt;
  const auto next = turns_.ready.begin();
  Peer& peer = *next->second;
  turns_.ready.erase(next);
  peer.turn = ++turns_.last;
  Outgoing piece = NextPiece(**FirstToSend(peer), peer);
  NoteReady(peer);
  return piece;
}

// It looks at all peers, but only about once in stall_us: while peers confirm what they are sent,
// none can have stalled before the time that was the next deadline.
void PeerHolder::Tick(std::int64_t now_us) {
  now_us_ = now_us;
  for (const auto& [turn, peer] : std::exchange(turns_.full, {})) NoteReady(*peer);
  if (now_us < next_deadline_us_) return;
  next_deadline_us_ = kForeverUs;
  std::vector<std::string> stalled;
  for (auto& [name, peer] : peers_) {
    if (IsStalled(peer)) stalled.push_back(name);
  }
  for (std::string& name : stalled) {
    ++counts_.stalled;
    for (const auto at : OfPeer(name)) End(at);
    stalled_peers_.push_back(std::move(name));
  }
}

bool PeerHolder::IsStalled(Peer& peer) {
  const std::uint64_t queued = *peer.queued_bytes;
  if (peer.in_flight_bytes == 0 && queued == 0) return false;
  // Nobody confirms what was stopped, but it leaves.
  const std::uint64_t seen = std::exchange(peer.seen_queued_bytes, queued);
  if (peer.in_flight_bytes == 0 && queued != seen) peer.heard_us = now_us_;
  const std::int64_t deadline_us = peer.heard_us + limits_.stall_us;
  if (now_us_ >= deadline_us) return true;
  next_deadline_us_ = std::min(next_deadline_us_, deadline_us);
  return false;
}

std::int64_t PeerHolder::NextDeadlineUs() const {
  const bool all_full = !turns_.ready.empty() && !HasRoom(queued_bytes_, limits_.in_flight_bytes);
  if (turns_.full.empty() && !all_full) return next_deadline_us_;
  return std::min(next_deadline_us_, now_us_ + kLookAtQueuesUs);
}

std::vector<std::string> PeerHolder::TakeStalledPeers() {
  return std::exchange(stalled_peers_, {});
}

}  // namespace tuplespace
