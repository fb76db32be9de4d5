// What the losses of passes, as handlers put them, add up to; and whether they can be right at all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "acan/manager/pass_tasks.h"
#include "acan/manager/trained_model.h"

namespace acan {

// Sums in the order of PassTasks::Losses of each pass. Each: the loss and, for classes, right
// answers. The last one is that of PassTasks::GradientNorm, if there is one.
using LossSums = std::vector<std::vector<float>>;

struct WrongLoss {
  // Who computes wrong. Unset: it is made of sums that others made, and one of those may be wrong.
  std::optional<tuplespace::ClientId> by;
  std::string text;
};
// One that cannot be right: a negative loss or sum of squares, a number of right answers that is
// none, or sums of another size than `model` has. The first that no inputs, however wrong, give;
// else the first at all.
// REQUIRES: `put_by` has who put each of `sums`.
std::optional<WrongLoss> FindWrongLoss(const TrainedModel& model, const PassTasks& tasks,
                                       const std::vector<Pass>& passes, const LossSums& sums,
                                       const std::vector<tuplespace::ClientId>& put_by);

struct LossTotal {
  float loss = 0;    // the canonical sum over all samples of each pass, passes one after the other
  double right = 0;  // exact if each part is, as it is with up to 2^24 rows
};
LossTotal SumLosses(const PassTasks& tasks, const std::vector<Pass>& passes, const LossSums& sums,
                    std::int64_t block);
// The norm of all gradients of a training pass, before it was clipped; nullopt: nobody asks for it.
std::optional<double> GradientNormOf(const PassTasks& tasks, const std::vector<Pass>& passes,
                                     const LossSums& sums);

// Whether the loss is of classes, so that right answers are counted.
bool CountsRightAnswers(const TrainedModel& model);
// What the loss of passes is divided by: the rows that count, and for values times the features.
double LossesOf(const TrainedModel& model, const std::vector<Pass>& passes);
// 0 where nothing counts: such a batch has a gradient of 0, too.
inline double MeanOf(double sum, double losses) {
  return losses > 0 ? sum / losses : 0;
}

}  // namespace acan
