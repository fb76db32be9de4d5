// Turns: how much of each client is served before the others have their turn. What is more waits
// for the next turns, in the order in which the client sent it.
//
// Not thread safe: one thread owns it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "peer_table.h"

namespace tuplespace {

class Turns {
 public:
  // `turn_cost`: of one client in one turn. `waiting_cost`: what may wait of one client.
  Turns(std::uint64_t turn_cost, std::uint64_t waiting_cost)
      : turn_cost_(turn_cost), waiting_cost_(waiting_cost) {}

  // Whether a request of this cost has its turn now; then it counts.
  bool MayServe(Peer& peer, std::uint64_t cost);
  // False: the client sends faster than anybody can be served.
  bool Defer(const ClientId& client, Peer& peer, WaitingRequest&& waiting);
  void Forget(const ClientId& client) { std::erase(waiting_, client); }

  bool empty() const { return waiting_.empty(); }  // nobody's requests wait
  void Begin() { ++turn_; }
  // Whose requests have waited longest; Defer or PutBack makes it wait again.
  std::optional<ClientId> TakeFirst();
  void PutBack(const ClientId& client) { waiting_.push_back(client); }
  // The next request that waits; nullopt: there is none, or it does not fit into a turn of which
  // `*cost` is used. Adds its cost.
  std::optional<WaitingRequest> TakeNext(Peer& peer, std::uint64_t* cost) const;

 private:
  const std::uint64_t turn_cost_;
  const std::uint64_t waiting_cost_;
  std::deque<ClientId> waiting_;  // peers with requests that wait, in their turn
  std::uint64_t turn_ = 1;
};

}  // namespace tuplespace
