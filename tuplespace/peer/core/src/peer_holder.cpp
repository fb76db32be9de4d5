#include "peer_holder.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tuplespace {

namespace {
constexpr std::size_t kMaxPeersRemembered = 4096;
}

void PeerHolder::SessionBegan(std::uint64_t session, std::int64_t broker_us, std::int64_t now_us) {
  if (session_ != session) SessionEnded();
  session_ = session;
  broker_ahead_us_ = broker_us - now_us;
}

void PeerHolder::SessionEnded() {
  session_ = 0;
  for (auto at = transfers_.begin(); at != transfers_.end();) {
    Refuse(at->peer, at->number, FetchRefusal::kGone);
    at = End(at);
  }
  asked_.clear();
}

bool PeerHolder::Receive(const std::string& peer, std::string_view public_key,
                         std::span<const std::byte> message, std::int64_t now_us) {
  std::optional<ToHolder> decoded = DecodeToHolder(message);
  if (!decoded) {
    ++counts_.malformed;
    return NoteRefused(peer);
  }
  if (auto* fetch = std::get_if<FetchFrame>(&*decoded)) {
    return OnFetch(peer, public_key, std::move(*fetch), now_us);
  }
  if (const auto* more = std::get_if<MoreFrame>(&*decoded)) {
    OnMore(peer, *more, now_us);
  } else if (const auto* stop = std::get_if<StopFrame>(&*decoded)) {
    const auto at = Find(peer, stop->transfer);
    if (at != transfers_.end()) End(at);
  }
  return true;
}

bool PeerHolder::OnFetch(const std::string& peer, std::string_view public_key, FetchFrame&& fetch,
                         std::int64_t now_us) {
  if (const auto why = RefusalOf(peer, public_key, fetch, now_us)) {
    Refuse(peer, fetch.transfer, *why);
    const bool honest = *why == FetchRefusal::kBusy || *why == FetchRefusal::kExpired;
    return honest || NoteRefused(peer);
  }
  const bool asked = std::any_of(transfers_.begin(), transfers_.end(), [&](const Transfer& other) {
    return other.key == fetch.key && !other.payload;
  });
  Transfer& transfer = transfers_.emplace_back();
  transfer.peer = peer;
  transfer.number = fetch.transfer;
  transfer.key = std::move(fetch.key);
  transfer.window_bytes = std::min<std::uint64_t>(fetch.window_bytes, limits_.window_bytes);
  transfer.heard_us = now_us;
  ++peers_[peer].transfers;
  if (!asked) asked_.push_back(transfer.key);
  return true;
}

std::optional<FetchRefusal> PeerHolder::RefusalOf(const std::string& peer,
                                                  std::string_view public_key,
                                                  const FetchFrame& fetch, std::int64_t now_us) {
  const TicketClaims claims{session_, fetch.reader, public_key, fetch.key.bytes()};
  const TicketVerdict verdict =
      session_ == 0 ? TicketVerdict::kForged
                    : CheckTicket(secret_, fetch.ticket, claims, now_us + broker_ahead_us_);
  if (verdict == TicketVerdict::kExpired) {
    ++counts_.expired;
    return FetchRefusal::kExpired;
  }
  if (verdict == TicketVerdict::kForged || Find(peer, fetch.transfer) != transfers_.end()) {
    ++counts_.forged;
    return FetchRefusal::kTicket;
  }
  const auto known = peers_.find(peer);
  const std::size_t of_peer = known == peers_.end() ? 0 : known->second.transfers;
  if (of_peer >= limits_.transfers_per_peer || transfers_.size() >= limits_.transfers) {
    ++counts_.busy;
    return FetchRefusal::kBusy;
  }
  return std::nullopt;
}

bool PeerHolder::NoteRefused(const std::string& peer) {
  // ZeroMQ gives each connection an id of its own, so refused ones that have gone can be forgotten.
  if (peers_.size() >= kMaxPeersRemembered) {
    std::erase_if(peers_, [](const auto& entry) { return entry.second.transfers == 0; });
  }
  return ++peers_[peer].refused < limits_.refused_per_peer;
}

void PeerHolder::Refuse(const std::string& peer, std::uint64_t number, FetchRefusal why) {
  // Refusals wait only for the next turn. A peer that floods is disconnected before there are more.
  if (refusals_.size() >= limits_.transfers) return;
  refusals_.push_back({peer, EncodePeer(RefusalFrame{number, why}), {}, {}});
}

PeerHolder::Transfers::iterator PeerHolder::Find(const std::string& peer, std::uint64_t number) {
  return std::find_if(transfers_.begin(), transfers_.end(), [&](const Transfer& transfer) {
    return transfer.number == number && transfer.peer == peer;
  });
}

void PeerHolder::OnMore(const std::string& peer, const MoreFrame& more, std::int64_t now_us) {
  const auto at = Find(peer, more.transfer);
  // Bytes that were not sent cannot have been received.
  if (at == transfers_.end() || more.received_bytes > at->sent_bytes) return;
  if (more.received_bytes <= at->confirmed_bytes) return;
  at->heard_us = now_us;
  Confirm(*at, more.received_bytes - at->confirmed_bytes);
  if (!at->payload || at->confirmed_bytes < at->payload->size()) return;
  ++counts_.sent_payloads;
  counts_.sent_bytes += at->payload->size();
  End(at);
}

void PeerHolder::Confirm(Transfer& transfer, std::uint64_t bytes) {
  transfer.confirmed_bytes += bytes;
  in_flight_bytes_ -= bytes;
  peers_.at(transfer.peer).in_flight_bytes -= bytes;
}

PeerHolder::Transfers::iterator PeerHolder::End(Transfers::iterator at) {
  Confirm(*at, at->in_flight());
  const auto peer = peers_.find(at->peer);
  --peer->second.transfers;
  if (peer->second.transfers == 0 && peer->second.refused == 0) peers_.erase(peer);
  return transfers_.erase(at);
}

void PeerHolder::PeerGone(const std::string& peer) {
  for (auto at = transfers_.begin(); at != transfers_.end();) {
    at = at->peer == peer ? End(at) : std::next(at);
  }
  peers_.erase(peer);
  std::erase_if(refusals_, [&](const Outgoing& refusal) { return refusal.peer == peer; });
}

std::vector<Key> PeerHolder::TakeAsked() {
  return std::exchange(asked_, {});
}

void PeerHolder::Provide(const Key& key, const Payload& payload, std::int64_t now_us) {
  std::optional<PayloadHash> hash;
  for (auto at = transfers_.begin(); at != transfers_.end();) {
    if (at->key != key || at->payload) {
      ++at;
      continue;
    }
    if (payload.empty()) {
      ++counts_.gone;
      Refuse(at->peer, at->number, FetchRefusal::kGone);
      at = End(at);
      continue;
    }
    if (!hash) hash = payload.hash() ? *payload.hash() : HashOf(payload.bytes());
    at->payload = payload;
    at->hash = *hash;
    at->heard_us = now_us;
    ++at;
  }
}

void PeerHolder::Withdraw(const Key& key) {
  std::erase(asked_, key);
  for (auto at = transfers_.begin(); at != transfers_.end();) {
    if (at->key != key) {
      ++at;
      continue;
    }
    ++counts_.gone;
    Refuse(at->peer, at->number, FetchRefusal::kGone);
    at = End(at);
  }
}

bool PeerHolder::MaySend(const Transfer& transfer) const {
  if (!transfer.payload || transfer.sent_bytes == transfer.payload->size()) return false;
  // If the window is small, one piece at a time may be in flight.
  if (transfer.in_flight() > 0 && transfer.in_flight() + kPieceBytes > transfer.window_bytes) {
    return false;
  }
  const std::uint64_t of_peer = peers_.at(transfer.peer).in_flight_bytes;
  return of_peer + kPieceBytes <= limits_.in_flight_bytes_per_peer &&
         in_flight_bytes_ + kPieceBytes <= limits_.in_flight_bytes;
}

PeerHolder::Outgoing PeerHolder::NextPiece(Transfer& transfer) {
  const std::uint64_t left = transfer.payload->size() - transfer.sent_bytes;
  const std::uint64_t bytes = std::min<std::uint64_t>(left, kPieceBytes);
  PieceFrame piece{transfer.number, transfer.payload->size(), transfer.sent_bytes, transfer.hash,
                   transfer.payload->bytes().subspan(transfer.sent_bytes, bytes)};
  transfer.sent_bytes += bytes;
  in_flight_bytes_ += bytes;
  peers_.at(transfer.peer).in_flight_bytes += bytes;
  return {transfer.peer, EncodePeerHead(piece), piece.bytes, *transfer.payload};
}

std::optional<PeerHolder::Outgoing> PeerHolder::TakeOutput() {
  if (!refusals_.empty()) {
    Outgoing refusal = std::move(refusals_.front());
    refusals_.pop_front();
    return refusal;
  }
  const auto next = std::find_if(transfers_.begin(), transfers_.end(),
                                 [this](const Transfer& transfer) { return MaySend(transfer); });
  if (next == transfers_.end()) return std::nullopt;
  return NextPiece(*next);
}

void PeerHolder::Tick(std::int64_t now_us) {
  for (auto at = transfers_.begin(); at != transfers_.end();) {
    if (now_us - at->heard_us < limits_.stall_us || at->in_flight() == 0) {
      ++at;
      continue;
    }
    ++counts_.stalled;
    stalled_peers_.push_back(at->peer);
    at = End(at);
  }
}

std::int64_t PeerHolder::NextDeadlineUs() const {
  std::int64_t next_us = kForeverUs;
  for (const Transfer& transfer : transfers_) {
    if (transfer.in_flight() > 0) next_us = std::min(next_us, transfer.heard_us + limits_.stall_us);
  }
  return next_us;
}

std::vector<std::string> PeerHolder::TakeStalledPeers() {
  return std::exchange(stalled_peers_, {});
}

}  // namespace tuplespace
