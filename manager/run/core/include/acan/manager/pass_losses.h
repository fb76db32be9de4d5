// Adds up the losses of passes, as handlers put them, and checks whether they are plausible.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "acan/manager/pass_tasks.h"
#include "acan/manager/trained_model.h"

namespace acan {

// Sums in the order of PassTasks::Losses of each pass, followed by PassTasks::GradientNorm, if
// there is one. Each is the loss and, for classes, the number of right answers.
using LossSums = std::vector<std::vector<float>>;

struct WrongLoss {
  // The handler that computed wrongly. Unset: the loss depends on sums of other tasks, any of which
  // may be wrong.
  std::optional<tuplespace::ClientId> by;
  std::string text;
};
// Finds a loss that cannot be right: a negative loss or sum of squares, an impossible number of
// right answers, or sums of another size than `model` has. Returns the first one that no inputs,
// however wrong, could explain; otherwise the first one.
// REQUIRES: `put_by` has the maker of each of `sums`.
std::optional<WrongLoss> FindWrongLoss(const TrainedModel& model, const PassTasks& tasks,
                                       const std::vector<Pass>& passes, const LossSums& sums,
                                       const std::vector<tuplespace::ClientId>& put_by);

struct LossTotal {
  float loss = 0;    // the canonical sum over all samples of each pass, one pass after another
  double right = 0;  // exact if each part is, which holds up to 2^24 rows
};
LossTotal SumLosses(const PassTasks& tasks, const std::vector<Pass>& passes, const LossSums& sums,
                    std::int64_t block);
// The norm of all gradients of a training pass before clipping; nullopt if the training does not
// need it.
std::optional<double> GradientNormOf(const PassTasks& tasks, const std::vector<Pass>& passes,
                                     const LossSums& sums);

// Whether the loss is over classes, so that right answers are counted.
bool CountsRightAnswers(const TrainedModel& model);
// The divisor of the loss: the number of rows that count, for values times the features.
double LossesOf(const TrainedModel& model, const std::vector<Pass>& passes);
// 0 if no row counts; such a batch also has a gradient of 0.
inline double MeanOf(double sum, double losses) {
  return losses > 0 ? sum / losses : 0;
}

}  // namespace acan
