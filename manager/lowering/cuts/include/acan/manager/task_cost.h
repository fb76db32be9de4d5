// Estimated costs of tasks: the time to compute, and to move inputs and results.
#pragma once

#include <cstdint>

#include "acan/core/task.h"

namespace acan {

// How fast the handlers are together, as equal workers that compute one task each.
struct WorkerSpeed {
  int workers = 1;  // number of parallel tasks that keep all handlers busy
  // For unequal handlers, the speed of all divided by that of the slowest one; 0: they are equal.
  // While the slowest one computes a task, all together compute about this many.
  double slowest_share = 0;
  double gflops = 0;       // of one worker; 0: unknown, a CPU core's is assumed
  double overhead_us = 0;  // of a task, besides its computation; 0: unknown, one machine is assumed
};

// The bytes of inputs and results.
std::uint64_t MovedBytes(const Task& task);
// The part of these bytes that a task copies: pieces put together, or cut out of a larger buffer.
std::uint64_t CopiedBytes(const Task& task);
// What a task does, whichever worker runs it.
struct TaskWork {
  double flops = 0;     // of products and attention
  double bytes_us = 0;  // to move, copy, read and write what it needs besides
};
TaskWork TaskWorkOf(const Task& task);
// The time of a task on one worker, without the overhead.
double TaskUs(const WorkerSpeed& speed, const TaskWork& work);
inline double TaskUs(const WorkerSpeed& speed, const Task& task) {
  return TaskUs(speed, TaskWorkOf(task));
}
// The least time of a step with so many TaskWork::flops, if all workers are always busy.
double LeastUs(const WorkerSpeed& speed, double flops);
// The speed of all workers together.
double GflopsOf(const WorkerSpeed& speed);
// The time until a stage of independent tasks is done, if each idle worker takes the next one.
double StageUs(const WorkerSpeed& speed, double all_us, double largest_us, double tasks);

}  // namespace acan
