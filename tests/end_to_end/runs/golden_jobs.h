// The jobs whose trained weights golden_hashes.h has. They are at least one of each kind of model,
// with every optimizer and schedule, and with what a training draws from its seed. Together they
// run every kernel and product.
#pragma once

#include <string>
#include <vector>

#include "program.h"

namespace acan::testing {

struct GoldenJob {
  std::string name;
  std::string path;  // of the job file
};

// Writes all jobs and their data to `folder`. The bytes depend on nothing.
std::vector<GoldenJob> WriteGoldenJobs(const TestFolder& folder);

}  // namespace acan::testing
