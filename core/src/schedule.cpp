#include "acan/core/schedule.h"

#include <cassert>

#include "acan/core/exact_math.h"
#include "acan/core/optimizers.h"

namespace acan {

std::int64_t StepsPerEpoch(std::int64_t samples, std::int64_t batch) {
  assert(samples > 0 && batch > 0);
  return (samples - 1) / batch + 1;
}

std::int64_t TotalSteps(const Training& training, std::int64_t samples) {
  if (training.steps) return *training.steps;
  return StepsPerEpoch(samples, training.batch) * training.epochs;
}

double LearningRateAt(const Training& training, std::int64_t step, std::int64_t total_steps) {
  assert(step >= 0 && step < total_steps);
  const Schedule& schedule = training.schedule;
  if (step < schedule.warmup_steps) {
    return training.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(schedule.warmup_steps);
  }
  const std::int64_t after = step - schedule.warmup_steps;
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
      break;
    case ScheduleKind::kStep:
      assert(schedule.step_every > 0);
      // The power may be infinite, and 0 times it would be NaN.
      if (training.learning_rate == 0.0) return training.learning_rate;
      return training.learning_rate *
             IntegerPower(schedule.step_factor, after / schedule.step_every);
    case ScheduleKind::kCosine: {
      const double progress =
          static_cast<double>(after) / static_cast<double>(total_steps - schedule.warmup_steps);
      const double share = (1.0 + CosinePi(progress)) / 2.0;
      const double final = schedule.final_fraction;
      return training.learning_rate * (final + (1.0 - final) * share);
    }
  }
  return training.learning_rate;
}

KernelScalars OptimizerScalarsAt(const Training& training, std::int64_t step,
                                 std::int64_t total_steps) {
  return RowOf(training.optimizer)
      .scalars(training, LearningRateAt(training, step, total_steps), step);
}

}  // namespace acan
