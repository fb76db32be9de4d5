// Turns: limits how much of each client is served before other clients have their turn. Further
// requests wait for the next turns, in the order in which the client sent them.
//
// Not thread safe; for one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "peer_table.h"

namespace tuplespace {

// The limits of waiting requests.
struct WaitingLimits {
  std::uint64_t cost = 0;          // of one client
  std::uint64_t bytes = 0;         // of one client
  std::uint64_t bytes_of_all = 0;  // of all clients; beyond it each may use an equal part
};

class Turns {
 public:
  // `turn_cost`: for one client in one turn.
  Turns(std::uint64_t turn_cost, WaitingLimits limits) : turn_cost_(turn_cost), limits_(limits) {}

  // Whether a request of this cost may be served now. If so, counts its cost.
  bool MayServe(Peer& peer, std::uint64_t cost);
  // A request that MayServe allowed has cost this much more.
  static void Charge(Peer& peer, std::uint64_t more) { peer.cost += more; }
  enum class Deferred : std::uint8_t {
    kWaits,
    kNoRoom,   // it has too many bytes at present and is not kept
    kTooFast,  // the client sends faster than any client can be served
  };
  // `may_be_sent_again`: the client may be told to send it again, and other requests may overtake
  // it.
  Deferred Defer(const ClientId& client, Peer& peer, WaitingRequest&& waiting,
                 bool may_be_sent_again);
  // `peer` and all its waiting requests are about to be removed.
  void Forget(const ClientId& client, const Peer& peer);

  bool empty() const { return waiting_.empty(); }  // no requests wait
  void Begin() { ++turn_; }
  // The client whose requests have waited longest, which leaves the queue; Defer or PutBack adds it
  // again.
  std::optional<ClientId> TakeFirst();
  void PutBack(const ClientId& client) { waiting_.push_back(client); }
  // The next waiting request, whose cost is added to `*cost`. nullopt: there is none, or it does
  // not fit into a turn of which `*cost` is used.
  std::optional<WaitingRequest> TakeNext(Peer& peer, std::uint64_t* cost);

 private:
  // Whether `bytes` more bytes of a client would exceed `times` the limits.
  bool IsOver(const Peer& peer, std::uint64_t bytes, std::uint64_t times) const;

  const std::uint64_t turn_cost_;
  const WaitingLimits limits_;
  std::deque<ClientId> waiting_;     // peers with waiting requests, in the order of their turns
  std::uint64_t waiting_bytes_ = 0;  // of all clients
  std::uint64_t turn_ = 1;
};

}  // namespace tuplespace
