// Jobs for tests that run the program.
#pragma once

#include <cstdint>
#include <string>

#include "program.h"

namespace acan::testing {

// The text of a job on generated data: [16, 40, 2], a few dozen steps.
std::string SmallJob();
// A job that takes far longer than any test, but has short steps.
std::string EndlessJob();

// Waits until a broker with a port of its choice listens; returns "tcp://127.0.0.1:PORT".
std::string EndpointOf(Program& broker);

}  // namespace acan::testing
