#include "turns.h"

#include <utility>

namespace tuplespace {

// In the order in which it sent them.
bool Turns::MayServe(Peer& peer, std::uint64_t cost) {
  if (!peer.waiting.empty()) return false;
  if (std::exchange(peer.turn, turn_) != turn_) peer.cost = 0;
  // One that costs more than a turn has to be served some day.
  if (peer.cost > 0 && peer.cost + cost > turn_cost_) return false;
  peer.cost += cost;
  return true;
}

bool Turns::Defer(const ClientId& client, Peer& peer, WaitingRequest&& waiting) {
  if (peer.waiting.empty()) waiting_.push_back(client);
  peer.waiting_cost += waiting.cost;
  peer.waiting.push_back(std::move(waiting));
  return peer.waiting_cost <= waiting_cost_;
}

std::optional<ClientId> Turns::TakeFirst() {
  if (waiting_.empty()) return std::nullopt;
  std::optional<ClientId> first = std::move(waiting_.front());
  waiting_.pop_front();
  return first;
}

std::optional<WaitingRequest> Turns::TakeNext(Peer& peer, std::uint64_t* cost) const {
  if (peer.waiting.empty()) return std::nullopt;
  const std::uint64_t next_cost = peer.waiting.front().cost;
  if (*cost > 0 && *cost + next_cost > turn_cost_) return std::nullopt;
  *cost += next_cost;
  std::optional<WaitingRequest> next = std::move(peer.waiting.front());
  peer.waiting.pop_front();
  peer.waiting_cost -= next_cost;
  return next;
}

}  // namespace tuplespace
