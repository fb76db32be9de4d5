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

// What may wait.
struct WaitingLimits {
  std::uint64_t cost = 0;          // of one client
  std::uint64_t bytes = 0;         // of one client
  std::uint64_t bytes_of_all = 0;  // clients; beyond it each may have an equal part
};

class Turns {
 public:
  // `turn_cost`: of one client in one turn.
  Turns(std::uint64_t turn_cost, WaitingLimits limits) : turn_cost_(turn_cost), limits_(limits) {}

  // Whether a request of this cost has its turn now; then it counts.
  bool MayServe(Peer& peer, std::uint64_t cost);
  // What MayServe has let have its turn took so much more of it.
  static void Charge(Peer& peer, std::uint64_t more) { peer.cost += more; }
  enum class Deferred : std::uint8_t {
    kWaits,
    kNoRoom,   // its bytes are too many at present; it is not kept
    kTooFast,  // the client sends faster than anybody can be served
  };
  // `may_be_sent_again`: its client may be told to, and other requests may overtake it.
  Deferred Defer(const ClientId& client, Peer& peer, WaitingRequest&& waiting,
                 bool may_be_sent_again);
  // `peer` is about to go with all that waits of it.
  void Forget(const ClientId& client, const Peer& peer);

  bool empty() const { return waiting_.empty(); }  // nobody's requests wait
  void Begin() { ++turn_; }
  // Whose requests have waited longest; Defer or PutBack makes it wait again.
  std::optional<ClientId> TakeFirst();
  void PutBack(const ClientId& client) { waiting_.push_back(client); }
  // The next request that waits; nullopt: there is none, or it does not fit into a turn of which
  // `*cost` is used. Adds its cost.
  std::optional<WaitingRequest> TakeNext(Peer& peer, std::uint64_t* cost);

 private:
  // Whether so many bytes more of a client are over `times` the limits.
  bool IsOver(const Peer& peer, std::uint64_t bytes, std::uint64_t times) const;

  const std::uint64_t turn_cost_;
  const WaitingLimits limits_;
  std::deque<ClientId> waiting_;     // peers with requests that wait, in their turn
  std::uint64_t waiting_bytes_ = 0;  // of all
  std::uint64_t turn_ = 1;
};

}  // namespace tuplespace
