// Jobs for tests that run the program.
#pragma once

#include <cstdint>
#include <string>

#include "program.h"

namespace acan::testing {

// The text of a job on generated data: [16, 40, 2], some dozen steps.
std::string SmallJob();
// One that takes far longer than any test, but whose steps are short.
std::string EndlessJob();

// "tcp://127.0.0.1:PORT" of a broker that was told to take a free port; waits until it listens.
std::string EndpointOf(Program& broker);

}  // namespace acan::testing
