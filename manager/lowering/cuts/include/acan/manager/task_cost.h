// What tasks cost by estimate: the time to compute and to move what they read and make.
#pragma once

#include <cstdint>

#include "acan/core/task.h"

namespace acan {

struct WorkerSpeed {
  int workers = 1;  // how many tasks at once keep all handlers busy
  // Of unequal handlers, the speed of all over that of the slowest one; 0: they are equal.
  double slowest_share = 0;
  double gflops = 0;       // of one worker; 0: not known, a CPU core's
  double overhead_us = 0;  // of a task beside its computing; 0: not known, on one machine
};

// Inputs and results.
std::uint64_t MovedBytes(const Task& task);
// Of them, what a task puts together of pieces, or cuts out of a larger buffer.
std::uint64_t CopiedBytes(const Task& task);
// Of one worker, without the overhead.
double TaskUs(const WorkerSpeed& speed, const Task& task);
// Until tasks that need nothing of each other are done, when whoever is free takes the next.
double StageUs(const WorkerSpeed& speed, double all_us, double largest_us, double tasks);

}  // namespace acan
