// One line of text for each message between clients and the broker: for the trace of a seed.
#pragma once

#include <string>

#include "envelope.h"

namespace acan::simulation {

// Keys, fences, durations and statuses; no payloads. Empty: not worth a line (Pings and the like).
std::string Describe(const tuplespace::ClientMessage& message);
std::string Describe(const tuplespace::BrokerMessage& message);

}  // namespace acan::simulation
