// The jobs that the simulation trains. They are tiny, but each has something that the others lack.
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

// All jobs; created on the first call.
const std::vector<SimulatedJob>& Jobs();

// The smallest memory of a handler, enough for every job. The handlers' memory decides how a job is
// cut.
inline constexpr std::uint64_t kMinMemoryBytes = 8u << 10;
inline constexpr std::uint64_t kLargeMemoryBytes = 256u << 10;  // of a handler

}  // namespace acan::simulation
