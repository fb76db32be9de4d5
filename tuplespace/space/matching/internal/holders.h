// Holders: which clients keep copies of which payloads. Tasks whose affinity input they hold prefer
// them.
#pragma once

#include "ready_queue.h"

namespace tuplespace::internal {

class Holders {
 public:
  Holders(SpaceState& state, ReadyQueue& ready) : state_(state), ready_(ready) {}

  void Add(ClientState& client, Record* record, bool always = false);
  void Remove(ClientState& client, Record* record);
  void RemoveAllOf(ClientState& client);
  void RemoveAllOf(Record* record);  // the tuple goes, and with it what depends on it

 private:
  SpaceState& state_;
  ReadyQueue& ready_;
};

}  // namespace tuplespace::internal
