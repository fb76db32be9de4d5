#include "acan/manager/task_cost.h"

#include <algorithm>
#include <cmath>

namespace acan {
namespace {

// Assumed until measured: a CPU core, and a broker on the same machine.
constexpr double kAssumedGflops = 100;
constexpr double kAssumedOverheadUs = 80;
// The rate at which a worker reads or writes: a core's share of the memory's or the bus's
// bandwidth.
constexpr double kBytesPerUs = 10000;
// Half of a task's overhead is hidden, because the next task's messages travel while it computes.
constexpr double kOverheadSeen = 0.5;
// Between two stages nothing is hidden: the last result is put while all handlers are idle, and
// they have to wake up for the first tasks of the next stage.
constexpr double kOverheadsOfStage = 2;

double OverheadUs(const WorkerSpeed& speed) {
  return speed.overhead_us > 0 ? speed.overhead_us : kAssumedOverheadUs;
}

double FlopsPerUs(const WorkerSpeed& speed) {
  return 1e3 * (speed.gflops > 0 ? speed.gflops : kAssumedGflops);
}

}  // namespace

std::uint64_t MovedBytes(const Task& task) {
  std::uint64_t bytes = 0;
  for (const Piece& piece : task.pieces) bytes += BufferSpec{piece.rows, piece.cols}.bytes();
  for (const Output& output : task.outputs) bytes += output.view.bytes();
  return bytes;
}

std::uint64_t CopiedBytes(const Task& task) {
  std::uint64_t bytes = 0;
  for (const Piece& piece : task.pieces) {
    if (!CoversBuffer(piece, task)) bytes += BufferSpec{piece.rows, piece.cols}.bytes();
  }
  for (const Output& output : task.outputs) {
    const BufferSpec& whole = task.buffers[static_cast<std::size_t>(output.view.buffer)];
    if (output.view.bytes() != whole.bytes()) bytes += output.view.bytes();
  }
  return bytes;
}

TaskWork TaskWorkOf(const Task& task) {
  double us = static_cast<double>(MovedBytes(task) + 2 * CopiedBytes(task)) / kBytesPerUs;
  Task by_work;  // other calls take the time to read and write their operands
  for (const Call& call : task.calls) {
    if (call.gemm || call.kernel == Kernel::kAttention ||
        call.kernel == Kernel::kAttentionGradient) {
      by_work.calls.push_back(call);
      continue;
    }
    for (const View& view : call.views) {
      if (view.buffer >= 0) us += static_cast<double>(view.bytes()) / kBytesPerUs;
    }
  }
  return {.flops = static_cast<double>(Flops(by_work)), .bytes_us = us};
}

double TaskUs(const WorkerSpeed& speed, const TaskWork& work) {
  return work.bytes_us + work.flops / FlopsPerUs(speed);
}

double GflopsOf(const WorkerSpeed& speed) {
  return 1e-3 * FlopsPerUs(speed) * speed.workers;
}

double LeastUs(const WorkerSpeed& speed, double flops) {
  return flops / (1e3 * GflopsOf(speed));
}

double StageUs(const WorkerSpeed& speed, double all_us, double largest_us, double tasks) {
  const double overhead = kOverheadSeen * OverheadUs(speed);
  const double workers = speed.workers;
  const double rounds = std::ceil(tasks / workers);
  const double even = (all_us + tasks * overhead) / workers;
  const double whole = rounds * (largest_us + overhead);
  // With unequal handlers, the slowest one ends last.
  const double slowest_us = largest_us * speed.slowest_share / workers;
  return std::max(even, std::min(whole, even + largest_us)) + slowest_us +
         kOverheadsOfStage * OverheadUs(speed);
}

}  // namespace acan
