// The learning rate and the optimizer's scalars of every step. They have the same bits on every
// machine: the code uses only +, -, *, / and sqrt of IEEE double, and no libm function whose last
// bit could differ.
#pragma once

#include <cstdint>

#include "acan/core/model.h"
#include "acan/core/operators/kernels.h"

namespace acan {

// Optimizer steps of one epoch; the last one may have fewer samples. REQUIRES: both > 0.
std::int64_t StepsPerEpoch(std::int64_t samples, std::int64_t batch);
// Optimizer steps of the whole training. REQUIRES: samples > 0.
std::int64_t TotalSteps(const Training& training, std::int64_t samples);

// The learning rate of `step`, counted from 0. During warm-up (step < warmup_steps) it is
// learning_rate * (step + 1) / warmup_steps. After it, with t = step - warmup_steps and
// n = total_steps - warmup_steps:
//   constant  learning_rate
//   step      learning_rate * step_factor ^ floor(t / step_every)
//   cosine    learning_rate * (f + (1 - f) * (1 + cos(pi * t / n)) / 2), f = final_fraction
// REQUIRES: 0 <= step < total_steps; step_every > 0 for kStep.
double LearningRateAt(const Training& training, std::int64_t step, std::int64_t total_steps);

// The scalars of the optimizer's kernel for `step` (optimizers.h). REQUIRES: as LearningRateAt.
KernelScalars OptimizerScalarsAt(const Training& training, std::int64_t step,
                                 std::int64_t total_steps);

}  // namespace acan
