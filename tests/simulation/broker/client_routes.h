// ClientRoutes: knows the connection through which a broker reaches each client, and encodes
// messages to it. Owned by a BrokerHost; used only on the world's thread.
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
  // `network` must outlive this object.
  explicit ClientRoutes(Network& network) : network_(network) {}

  // Notes that frames arrived through `from`. Late frames from an ended connection do not take the
  // route from its successor.
  void OnFrames(const std::shared_ptr<Connection>& from);
  // Returns true if the connection was the route of its client, which then has no route.
  bool OnEnded(const Connection& connection);
  void Clear() { routes_.clear(); }

  bool Has(const tuplespace::ClientId& client) const { return routes_.contains(client); }
  // Whether the process at the other end is a handler. False without a route.
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
