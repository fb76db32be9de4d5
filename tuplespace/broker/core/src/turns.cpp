#include "turns.h"

#include <algorithm>
#include <utility>

namespace tuplespace {

// Requests of one client are served in the order in which it sent them.
bool Turns::MayServe(Peer& peer, std::uint64_t cost) {
  if (!peer.waiting.empty()) return false;
  if (std::exchange(peer.turn, turn_) != turn_) peer.cost = 0;
  // A request that costs more than a turn must be served eventually.
  if (peer.cost > 0 && peer.cost + cost > turn_cost_) return false;
  peer.cost += cost;
  return true;
}

bool Turns::IsOver(const Peer& peer, std::uint64_t bytes, std::uint64_t times) const {
  const std::uint64_t own = peer.waiting_bytes + bytes;
  if (own > times * limits_.bytes) return true;
  if (waiting_bytes_ + bytes <= times * limits_.bytes_of_all) return false;
  // Requests of other clients must not take a client's own share.
  const std::uint64_t clients = std::max<std::uint64_t>(1, waiting_.size());
  return own > times * limits_.bytes_of_all / clients;
}

// Requests that cannot be sent again later have the same room again in addition.
Turns::Deferred Turns::Defer(const ClientId& client, Peer& peer, WaitingRequest&& waiting,
                             bool may_be_sent_again) {
  constexpr std::uint64_t kTimesInAll = 2;
  if (may_be_sent_again && IsOver(peer, waiting.bytes, 1)) return Deferred::kNoRoom;
  if (IsOver(peer, waiting.bytes, kTimesInAll)) return Deferred::kTooFast;
  if (peer.waiting.empty()) waiting_.push_back(client);
  peer.waiting_cost += waiting.cost;
  peer.waiting_bytes += waiting.bytes;
  waiting_bytes_ += waiting.bytes;
  peer.waiting.push_back(std::move(waiting));
  return peer.waiting_cost <= limits_.cost ? Deferred::kWaits : Deferred::kTooFast;
}

void Turns::Forget(const ClientId& client, const Peer& peer) {
  std::erase(waiting_, client);
  waiting_bytes_ -= peer.waiting_bytes;
}

std::optional<ClientId> Turns::TakeFirst() {
  if (waiting_.empty()) return std::nullopt;
  std::optional<ClientId> first = std::move(waiting_.front());
  waiting_.pop_front();
  return first;
}

std::optional<WaitingRequest> Turns::TakeNext(Peer& peer, std::uint64_t* cost) {
  if (peer.waiting.empty()) return std::nullopt;
  const std::uint64_t next_cost = peer.waiting.front().cost;
  if (*cost > 0 && *cost + next_cost > turn_cost_) return std::nullopt;
  *cost += next_cost;
  std::optional<WaitingRequest> next = std::move(peer.waiting.front());
  peer.waiting.pop_front();
  peer.waiting_cost -= next_cost;
  peer.waiting_bytes -= next->bytes;
  waiting_bytes_ -= next->bytes;
  return next;
}

}  // namespace tuplespace
