// ClientRoutes: over which connection a broker reaches each client, and how what it says becomes
// frames. Owned by a BrokerHost; in the thread of the world.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "tuplespace/messages.h"
#include "wire.h"
#include "world/network.h"

namespace acan::simulation {

class ClientRoutes {
 public:
  // `network` must outlive it.
  explicit ClientRoutes(Network& network) : network_(network) {}

  // Something came from there. What still comes over an ended connection does not take the route
  // from its successor.
  void OnFrames(const std::shared_ptr<Connection>& from);
  // Whether it was the route of its client, which has none now.
  bool OnEnded(const Connection& connection);
  void Clear() { routes_.clear(); }

  bool Has(const tuplespace::ClientId& client) const { return routes_.contains(client); }
  // Whether the process at the other end is a handler's. False without a route.
  bool LeadsToHandler(const tuplespace::ClientId& client) const;
  // `leads`: as Frames::leads. REQUIRES: Has(client).
  void Send(const tuplespace::ClientId& client, const tuplespace::ToClient& envelope,
            std::optional<bool> leads);

 private:
  Network& network_;
  tuplespace::Encoder encoder_;
  std::unordered_map<tuplespace::ClientId, std::shared_ptr<Connection>> routes_;
};

}  // namespace acan::simulation
