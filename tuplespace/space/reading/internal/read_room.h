// ReadRoom: the memory of waiting Reads, and its limits for a client, for the clients of a key, and
// for all clients together. It bounds what the space must keep for a client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "space_state.h"

namespace tuplespace::internal {

class ReadRoom {
 public:
  explicit ReadRoom(const SpaceState& state) : state_(state) {}

  static ReadUse UseOf(const ReadWaiter& waiter);
  // Why a Read that takes `more` may not wait. `groups`: how many different patterns are watched.
  std::optional<RequestError> CheckRoom(const ClientState& client, const ReadUse& more,
                                        std::size_t groups) const;
  void Take(ClientState& client, const ReadUse& use);
  void GiveBack(ClientState& client, const ReadUse& use);

 private:
  const SpaceState& state_;
  std::unordered_map<std::string, ReadUse> of_keys_;  // by principal, if it has any
  std::uint64_t watched_ = 0;                         // by all clients
};

}  // namespace tuplespace::internal
