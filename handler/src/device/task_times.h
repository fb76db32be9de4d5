// TaskTimes: how long tasks of each kind take on this device, based on the last one of the kind.
// Pure: no clock. Owned by a DeviceThread and guarded by its lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "acan/core/task.h"

namespace acan {

class TaskTimes {
 public:
  // A task took `us`. `at_once`: its results were complete when its operations had been called.
  // REQUIRES: `flops` is not 0.
  void Note(TaskKind kind, std::uint64_t flops, std::int64_t us, bool at_once) {
    last_.at(static_cast<std::size_t>(kind)) = {std::max<std::int64_t>(1, us), flops, at_once};
  }
  // Whether `task` takes less than `us`; `flops`: Flops(task), which a caller that asks more than
  // once counts once. False if there was no task of its kind, or if the task is too large to trust
  // that one: the last one may have had operations that are counted and not computed, such as those
  // of a window beyond its image, and the next one others.
  bool IsShorter(const Task& task, std::uint64_t flops, std::int64_t us) const {
    const std::optional<Took>& took = Last(task);
    if (!took || task.calls.size() > kMostCalls) return false;
    if (flops > kMostFlops || BufferBytes(task) > kMostBytes) return false;
    if (static_cast<double>(flops) + NotInFlops(task) > static_cast<double>(kMostFlops)) {
      return false;
    }
    const double us_per_flop = static_cast<double>(took->us) / static_cast<double>(took->flops);
    return static_cast<double>(flops) * us_per_flop < static_cast<double>(us);
  }
  // Whether its results are complete when its operations have been called. False if there was no
  // task of its kind.
  bool EndsAtOnce(const Task& task) const { return Last(task) && Last(task)->at_once; }

 private:
  // More than a thread computes, and reads and writes, in a fraction of a millisecond. What Flops
  // leaves out counts as operations.
  static constexpr std::uint64_t kMostFlops = 1 << 26;
  static constexpr std::uint64_t kMostBytes = 8 << 20;
  // A device looks for calls that it can run together. Each call may be compared with all later
  // ones, however little they compute.
  static constexpr std::size_t kMostCalls = 1024;
  // An element of a truncated normal is drawn again until it is in its range, which may be one that
  // no draw is in: ACAN_MOST_DRAWS of kernels.
  static constexpr double kMostDraws = 64;

  struct Took {
    std::int64_t us = 0;
    std::uint64_t flops = 1;
    bool at_once = false;
  };
  static std::uint64_t BufferBytes(const Task& task) {
    std::uint64_t bytes = 0;
    for (const BufferSpec& buffer : task.buffers) bytes += buffer.bytes();
    return bytes;
  }
  // Upper bound of the operations that Flops does not count, because plans depend on it.
  static double NotInFlops(const Task& task) {
    double operations = 0;
    for (const Call& call : task.calls) {
      if (call.gemm) continue;
      if (call.kernel == Kernel::kEmbeddingGradient) operations += Comparisons(call);
      if (call.kernel == Kernel::kTruncatedNormal) operations += kMostDraws * Draws(call);
      if (call.kernel == Kernel::kNormal || call.kernel == Kernel::kUniform) {
        operations += Draws(call);
      }
    }
    return operations;
  }
  // For each word, kEmbeddingGradient searches all rows. It searches them again for each column of
  // a word that is in more rows than its list holds.
  static double Comparisons(const Call& call) {
    constexpr double kListedRows = 128;  // the least ACAN_FOUND_ROWS of kernels
    const double words = call.views[0].rows;
    const double cols = call.views[0].cols;
    const double rows = call.views[1].rows;
    return rows * (words + cols * std::min(words, rows / kListedRows));
  }
  // The operations of one draw for each element: ten rounds of Philox, a logarithm, a cosine.
  static double Draws(const Call& call) {
    constexpr double kOfOne = 64;
    return kOfOne * call.views[0].rows * call.views[0].cols;
  }
  const std::optional<Took>& Last(const Task& task) const {
    return last_.at(static_cast<std::size_t>(task.kind));
  }

  std::array<std::optional<Took>, kTaskKinds> last_;
};

}  // namespace acan
