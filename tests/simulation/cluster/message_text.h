// One line of text for each message between clients and the broker, for the trace of a seed.
#pragma once

#include <string>

#include "envelope.h"

namespace acan::simulation {

// Has keys, fences, durations and statuses, but no payloads. Empty for Pings and the like.
std::string Describe(const tuplespace::ClientMessage& message);
std::string Describe(const tuplespace::BrokerMessage& message);

}  // namespace acan::simulation
