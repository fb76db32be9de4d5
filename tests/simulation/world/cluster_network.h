// How the simulated parts of the product find the network of the world that runs.
#pragma once

#include "world/network.h"

namespace acan::simulation {

Network& ClusterNetwork();
void SetClusterNetwork(Network* network);  // null: there is none any more

}  // namespace acan::simulation
