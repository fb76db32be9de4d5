// Through this the simulated parts of the product find the network of the running world.
#pragma once

#include "world/network.h"

namespace acan::simulation {

// Where a hostile handler says that it serves what stays with it. It answers whoever connects
// there, again and again, and never with a payload.
inline constexpr const char* kHostileEndpoint = "tcp://192.0.2.1:1";

Network& ClusterNetwork();
void SetClusterNetwork(Network* network);  // null: there is none any more

}  // namespace acan::simulation
