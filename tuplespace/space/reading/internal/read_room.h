// ReadRoom: what waiting Reads take, and how much of it a client, the clients of a key, and all
// together may take. What a client may make others keep for it has an end.
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
  // Why a Read that takes `more` may not wait. `groups`: different patterns that are watched.
  std::optional<RequestError> CheckRoom(const ClientState& client, const ReadUse& more,
                                        std::size_t groups) const;
  void Take(ClientState& client, const ReadUse& use);
  void GiveBack(ClientState& client, const ReadUse& use);

 private:
  const SpaceState& state_;
  std::unordered_map<std::string, ReadUse> of_keys_;  // by principal, those that have any
  std::uint64_t watched_ = 0;                         // of all
};

}  // namespace tuplespace::internal
