// Through this the simulated parts of the product find the network of the running world.
#pragma once

#include "world/network.h"

namespace acan::simulation {

Network& ClusterNetwork();
void SetClusterNetwork(Network* network);  // null: there is none any more

}  // namespace acan::simulation
