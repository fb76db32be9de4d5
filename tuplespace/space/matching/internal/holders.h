// Holders: which clients keep copies of which payloads. Tasks whose affinity input they hold prefer
// them.
#pragma once

#include "ready_queue.h"

namespace tuplespace::internal {

class Holders {
 public:
  Holders(SpaceState& state, ReadyQueue& ready) : state_(state), ready_(ready) {}

  // Without `always` a holder beyond limits.held_keys_per_client is not remembered.
  // REQUIRES: the record is stored.
  void Add(ClientState& client, Record* record, bool always = false);
  // REQUIRES: it is a holder.
  void Remove(ClientState& client, Record* record);
  void RemoveAllOf(ClientState& client);  // of all that it holds
  void RemoveAllOf(Record* record);       // the tuple goes, and with it what depends on it

 private:
  SpaceState& state_;
  ReadyQueue& ready_;
};

}  // namespace tuplespace::internal
