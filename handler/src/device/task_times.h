// TaskTimes: how long tasks of each kind take on this device, based on the last one of the kind.
// Pure: no clock. Owned by a DeviceThread and guarded by its lock.
#pragma once

#include <algorithm>
#include <array>
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
  // Whether `task` takes less than `us`. False if there was no task of its kind.
  bool IsShorter(const Task& task, std::int64_t us) const {
    const std::optional<Took>& took = Last(task);
    if (!took) return false;
    const double us_per_flop = static_cast<double>(took->us) / static_cast<double>(took->flops);
    return static_cast<double>(Flops(task)) * us_per_flop < static_cast<double>(us);
  }
  // Whether its results are complete when its operations have been called. False if there was no
  // task of its kind.
  bool EndsAtOnce(const Task& task) const { return Last(task) && Last(task)->at_once; }

 private:
  struct Took {
    std::int64_t us = 0;
    std::uint64_t flops = 1;
    bool at_once = false;
  };
  const std::optional<Took>& Last(const Task& task) const {
    return last_.at(static_cast<std::size_t>(task.kind));
  }

  std::array<std::optional<Took>, kTaskKinds> last_;
};

}  // namespace acan
