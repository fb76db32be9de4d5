#include "acan/core/schedule.h"

#include <cassert>
#include <cmath>

namespace acan {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Taylor series; |z| <= pi / 4, so the first dropped term is below 3e-18.
double CosineSeries(double z) {
  const double s = z * z;
  double sum = 1.0 / 20922789888000.0;
  sum = sum * s - 1.0 / 87178291200.0;
  sum = sum * s + 1.0 / 479001600.0;
  sum = sum * s - 1.0 / 3628800.0;
  sum = sum * s + 1.0 / 40320.0;
  sum = sum * s - 1.0 / 720.0;
  sum = sum * s + 1.0 / 24.0;
  sum = sum * s - 1.0 / 2.0;
  return sum * s + 1.0;
}

double SineSeries(double z) {
  const double s = z * z;
  double sum = 1.0 / 355687428096000.0;
  sum = sum * s - 1.0 / 1307674368000.0;
  sum = sum * s + 1.0 / 6227020800.0;
  sum = sum * s - 1.0 / 39916800.0;
  sum = sum * s + 1.0 / 362880.0;
  sum = sum * s - 1.0 / 5040.0;
  sum = sum * s + 1.0 / 120.0;
  sum = sum * s - 1.0 / 6.0;
  return z + z * (s * sum);
}

}  // namespace

std::int64_t StepsPerEpoch(std::int64_t samples, std::int64_t batch) {
  assert(samples > 0 && batch > 0);
  return (samples - 1) / batch + 1;
}

double CosinePi(double x) {
  assert(x >= 0.0 && x <= 1.0);
  // The subtractions are exact (Sterbenz), so only the products round.
  if (x > 0.5) return -CosinePi(1.0 - x);
  if (x > 0.25) return SineSeries(kPi * (0.5 - x));
  return CosineSeries(kPi * x);
}

double IntegerPower(double base, std::int64_t exponent) {
  assert(exponent >= 0);
  double power = 1.0;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) power *= base;
    base *= base;
  }
  return power;
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
  const auto single = [](double value) { return static_cast<float>(value); };
  KernelScalars scalars;
  scalars.f[0] = single(LearningRateAt(training, step, total_steps));
  switch (training.optimizer) {
    case Optimizer::kSgd:
      scalars.f[1] = single(training.weight_decay);
      break;
    case Optimizer::kMomentum:
      scalars.f[1] = single(training.momentum);
      scalars.f[2] = single(training.weight_decay);
      break;
    case Optimizer::kAdamW:
      scalars.f[1] = single(1.0 - training.beta1);
      scalars.f[2] = single(1.0 - training.beta2);
      scalars.f[3] = single(training.epsilon);
      scalars.f[4] = single(training.weight_decay);
      scalars.f[5] = single(1.0 - IntegerPower(training.beta1, step + 1));
      scalars.f[6] = single(std::sqrt(1.0 - IntegerPower(training.beta2, step + 1)));
      break;
  }
  return scalars;
}

}  // namespace acan
