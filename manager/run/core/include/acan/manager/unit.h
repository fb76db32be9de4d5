// Unit: the work that ManagerCore opens and commits together: the initial weights, a training step,
// or some batches of an evaluation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "acan/manager/manager_events.h"
#include "acan/manager/spent_results.h"

namespace acan {

struct Unit {
  enum class Kind : std::uint8_t { kInitialize, kTrain, kEvaluate, kEvaluateLast };

  UnitId id = 0;
  Kind kind = Kind::kTrain;
  std::int64_t step = 0;  // training: the step; evaluation: the version
  std::vector<Pass> passes;
  std::vector<PlannedTask> to_put;    // in an order in which they can run
  std::size_t next = 0;               // into `to_put`
  bool tiles_resident = false;        // the tiles that it makes may stay on a device
  std::optional<SpentResults> spent;  // unset: all results are kept until the unit is committed
  std::size_t in_flight = 0;          // number of tasks
  bool loads_weights = false;         // LoadWeights is under way
  // One entry for each of PassTasks::Losses of each pass, then one for PassTasks::GradientNorm.
  std::optional<std::vector<std::vector<float>>> losses;
  std::optional<std::string> unexplained;  // describes a wrong loss of unknown cause

  bool IsPut() const { return next == to_put.size(); }
  bool IsDone() const {
    return IsPut() && in_flight == 0 && !loads_weights &&
           (kind == Kind::kInitialize || losses.has_value());
  }
};

}  // namespace acan
