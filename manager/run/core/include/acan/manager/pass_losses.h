// What the losses of passes, as handlers put them, add up to; and whether they can be right at all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "acan/manager/pass_tasks.h"
#include "acan/manager/trained_model.h"

namespace acan {

// Sums in the order of PassTasks::Losses of each pass. Each: the loss and, for classes, right
// answers.
using LossSums = std::vector<std::vector<float>>;

struct WrongLoss {
  tuplespace::ClientId by;
  std::string text;
};
// The first that no inputs, however wrong, give: a negative loss, a number of right answers that is
// none, or sums of another size than `model` has. Who says so computes wrong.
// REQUIRES: `put_by` has who put each of `sums`.
std::optional<WrongLoss> FindWrongLoss(const TrainedModel& model, const PassTasks& tasks,
                                       const std::vector<Pass>& passes, const LossSums& sums,
                                       const std::vector<tuplespace::ClientId>& put_by);

// The canonical sum over all samples of each pass, passes one after the other: loss, right answers.
std::vector<float> SumLosses(const PassTasks& tasks, const std::vector<Pass>& passes,
                             const LossSums& sums, std::int64_t block);

// Whether the loss is of classes, so that right answers are counted.
bool CountsRightAnswers(const TrainedModel& model);
// What a loss is divided by besides the samples: the rows of one, and for values the features.
double LossesPerSample(const TrainedModel& model);

}  // namespace acan
