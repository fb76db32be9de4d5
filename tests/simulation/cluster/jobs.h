// The jobs that the simulation trains: tiny, but each with something that the others lack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "acan/manager/job.h"
#include "acan/manager/sample_set.h"

namespace acan::simulation {

struct SimulatedJob {
  const char* name = "";
  Job job;
  Data data;
};

// All of them; made once.
const std::vector<SimulatedJob>& Jobs();

// Handlers of these sizes run every job; which one decides how the job is cut.
inline constexpr std::uint64_t kLeastMemoryBytes = 8u << 10;

}  // namespace acan::simulation
