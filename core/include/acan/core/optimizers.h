// The table of optimizers. A row has everything that the rest of the program needs to know about an
// optimizer: its name in job files, how many state matrices each parameter has, its kernel, the
// kernel's scalars for a step, and the job-file keys that it uses. docs/adding.md says how to add
// one.
#pragma once

#include <cmath>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "acan/core/exact_math.h"
#include "acan/core/operators/kernels.h"
#include "acan/core/operators/operator_shape.h"

namespace acan {

// The value is the row's index. It never appears on the wire or in a file; these use names.
enum class Optimizer : std::uint8_t { kSgd, kMomentum, kAdamW };

// The values of the keys below. These defaults hold unless a row overrides them. An optimizer
// ignores the values that it does not use.
struct Hyperparameters {
  double learning_rate = 0.1;
  double momentum = 0.9;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
};

// A key of a job file's section [train]. Its value is a number in [least, most], or in [least,
// most) if `below_most` is set.
struct OptimizerKey {
  std::string_view name;
  double Hyperparameters::*value;
  double least = 0;
  double most = 0;
  bool below_most = false;
};

inline constexpr double kMaxRate = 1e6;
inline constexpr double kMinEpsilon = 1e-37;  // smaller would be 0 or denormal as a float

// In the order in which they are checked and documented.
inline constexpr OptimizerKey kOptimizerKeys[] = {
    {"learning_rate", &Hyperparameters::learning_rate, 0, kMaxRate},
    {"momentum", &Hyperparameters::momentum, 0, 1},
    // With a beta of 1, 1 - beta^t would be 0 and the bias correction would divide by it.
    {"beta1", &Hyperparameters::beta1, 0, 1, true},
    {"beta2", &Hyperparameters::beta2, 0, 1, true},
    {"epsilon", &Hyperparameters::epsilon, kMinEpsilon, 1},
    {"weight_decay", &Hyperparameters::weight_decay, 0, kMaxRate},
};

// A key that an optimizer uses, and its default for that optimizer.
struct UsedKey {
  std::string_view name;
  double standard = 0;
};

struct OptimizerRow {
  Optimizer optimizer;
  std::string_view word;  // its name in job files
  int states = 0;         // matrices of the parameter's shape, 0 at first
  // Writes the weights and the states; reads the weights, the states and the gradient, in this
  // order.
  Kernel kernel;
  Few<UsedKey, 8> keys;
  // The kernel's scalars for `step`, counted from 0. `rate` is the schedule's learning rate for the
  // step. Computed in double and rounded to float once.
  KernelScalars (*scalars)(const Hyperparameters& values, double rate, std::int64_t step);
  std::string_view meaning;
};

namespace optimizer_rows {

constexpr UsedKey Used(std::string_view name) {
  for (const OptimizerKey& key : kOptimizerKeys) {
    if (key.name == name) return {name, Hyperparameters{}.*key.value};
  }
  throw "an optimizer uses a key that is not in kOptimizerKeys";
}

constexpr float Single(double value) {
  return static_cast<float>(value);
}

inline KernelScalars OfSgd(const Hyperparameters& values, double rate, std::int64_t) {
  return {.f = {Single(rate), Single(values.weight_decay)}, .i = {}};
}

inline KernelScalars OfMomentum(const Hyperparameters& values, double rate, std::int64_t) {
  return {.f = {Single(rate), Single(values.momentum), Single(values.weight_decay)}, .i = {}};
}

inline KernelScalars OfAdamW(const Hyperparameters& values, double rate, std::int64_t step) {
  return {.f = {Single(rate), Single(1.0 - values.beta1), Single(1.0 - values.beta2),
                Single(values.epsilon), Single(values.weight_decay),
                Single(1.0 - IntegerPower(values.beta1, step + 1)),
                Single(std::sqrt(1.0 - IntegerPower(values.beta2, step + 1)))},
          .i = {}};
}

}  // namespace optimizer_rows

// Row i describes the optimizer with the number i.
inline constexpr OptimizerRow kOptimizers[] = {
    {Optimizer::kSgd,
     "sgd",
     0,
     Kernel::kSgd,
     {optimizer_rows::Used("learning_rate"), optimizer_rows::Used("weight_decay")},
     optimizer_rows::OfSgd,
     "Stochastic gradient descent, as torch.optim.SGD."},
    {Optimizer::kMomentum,
     "momentum",
     1,
     Kernel::kMomentum,
     {optimizer_rows::Used("learning_rate"), optimizer_rows::Used("momentum"),
      optimizer_rows::Used("weight_decay")},
     optimizer_rows::OfMomentum,
     "Stochastic gradient descent with momentum, as torch.optim.SGD with its argument momentum."},
    {Optimizer::kAdamW,
     "adamw",
     2,
     Kernel::kAdamW,
     {optimizer_rows::Used("learning_rate"),
      optimizer_rows::Used("beta1"),
      optimizer_rows::Used("beta2"),
      optimizer_rows::Used("epsilon"),
      {"weight_decay", 0.01}},
     optimizer_rows::OfAdamW,
     "Adam with decoupled weight decay, as torch.optim.AdamW."},
};

constexpr const OptimizerRow& RowOf(Optimizer optimizer) {
  return kOptimizers[static_cast<std::size_t>(optimizer)];
}

constexpr int StateCount(Optimizer optimizer) {
  return RowOf(optimizer).states;
}

// The largest number of states of any optimizer, for code that reads files and keys.
constexpr int MostStates() {
  int most = 0;
  for (const OptimizerRow& row : kOptimizers) most = row.states > most ? row.states : most;
  return most;
}

// Null if the optimizer does not use `key`.
constexpr const UsedKey* FindKey(const OptimizerRow& row, std::string_view key) {
  for (const UsedKey& used : row.keys) {
    if (used.name == key) return &used;
  }
  return nullptr;
}

}  // namespace acan
