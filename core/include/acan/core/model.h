// What is trained and how, as plain values without files, processes or devices.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "acan/core/device.h"
#include "acan/core/operators/kernels.h"
#include "acan/core/optimizers.h"

namespace acan {

enum class Loss : std::uint8_t { kCrossEntropy, kMeanSquaredError };
enum class ScheduleKind : std::uint8_t { kConstant, kStep, kCosine };

// A multi-layer perceptron. layers = inputs, hidden..., outputs. Every hidden layer is followed by
// `activation`; the last layer is not, as the loss takes its sums.
struct Perceptron {
  std::vector<std::int64_t> layers;
  Activation activation = Activation::kRelu;
  float clip_bound = 6.0f;  // clipped_relu only
  Loss loss = Loss::kCrossEntropy;

  int layer_count() const { return static_cast<int>(layers.size()) - 1; }
  std::int64_t inputs(int layer) const { return layers[static_cast<std::size_t>(layer)]; }
  std::int64_t outputs(int layer) const { return layers[static_cast<std::size_t>(layer) + 1]; }
};

// The learning rate as a function of the step. Linear warm-up over warmup_steps, then the kind's
// curve; schedule.h has the formulas.
struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  std::int64_t warmup_steps = 0;
  std::int64_t step_every =
      0;  // kStep: the rate is multiplied by step_factor every step_every steps
  double step_factor = 0.1;
  double final_fraction = 0.0;  // kCosine: ends at this share of the learning rate
};

// Includes the values that its optimizer uses (optimizers.h).
struct Training : Hyperparameters {
  std::int64_t batch =
      128;  // samples of one optimizer step; the last step of an epoch may have fewer
  std::int64_t epochs = 5;
  std::optional<std::int64_t> steps;  // set: training ends after this many, whatever `epochs` is
  std::optional<std::int64_t> evaluate_every;  // steps; unset: at the end of each epoch
  std::uint64_t seed = 1;
  Precision precision = Precision::kExact;
  std::int64_t block = 64;  // leaf length of the canonical order, a power of two >= 16
  bool shuffle = true;
  Optimizer optimizer = Optimizer::kSgd;
  Schedule schedule;
  double clip_norm = 0;  // the maximum norm of all gradients; 0: no limit
};

}  // namespace acan
