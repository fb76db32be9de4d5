// Holders: which clients keep copies of which payloads. Tasks prefer the clients that hold their
// affinity input.
#pragma once

#include "ready_queue.h"

namespace tuplespace::internal {

class Holders {
 public:
  Holders(SpaceState& state, ReadyQueue& ready) : state_(state), ready_(ready) {}

  // Unless `always` is set, does nothing if the client already has limits.held_keys_per_client
  // copies. REQUIRES: the record is stored.
  void Add(ClientState& client, Record* record, bool always = false);
  // REQUIRES: the client is a holder.
  void Remove(ClientState& client, Record* record);
  void RemoveAllOf(ClientState& client);  // all copies of the client
  void RemoveAllOf(Record* record);       // all copies of the tuple, which is removed

 private:
  SpaceState& state_;
  ReadyQueue& ready_;
};

}  // namespace tuplespace::internal
