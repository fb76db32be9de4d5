// Holders: which clients keep copies of which payloads. Tasks prefer the clients that hold their
// affinity input.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "ready_queue.h"

namespace tuplespace::internal {

class Holders {
 public:
  Holders(SpaceState& state, ReadyQueue& ready) : state_(state), ready_(ready) {}

  // Unless `always` is set, does nothing if the client already has limits.held_keys_per_client
  // copies, or all clients of its key have as many as its role allows. REQUIRES: the record is
  // stored.
  void Add(ClientState& client, Record* record, bool always = false);
  // REQUIRES: the client is a holder.
  void Remove(ClientState& client, Record* record);
  void RemoveAllOf(ClientState& client);  // all copies of the client
  void RemoveAllOf(Record* record);       // all copies of the tuple, which is removed

 private:
  void Uncount(const ClientState& client);  // it holds one less

  SpaceState& state_;
  ReadyQueue& ready_;
  std::unordered_map<std::string, std::uint64_t> of_keys_;  // copies, by principal
};

}  // namespace tuplespace::internal
