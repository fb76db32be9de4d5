#include "acan/manager/pass_losses.h"

#include <cmath>
#include <utility>

#include "fmt/format.h"

namespace acan {
namespace {

// The key of the sum of squares after the losses of training passes.
std::optional<tuplespace::Key> NormKey(const PassTasks& tasks, const std::vector<Pass>& passes) {
  return tasks.GradientNorm(passes.front());
}

// Every trained model has exactly one loss.
const model::Node& LossNode(const TrainedModel& model) {
  const model::Graph& graph = model.evaluation;
  return graph.node(graph.value(graph.losses().front()).index);
}

}  // namespace

std::optional<WrongLoss> FindWrongLoss(const TrainedModel& model, const PassTasks& tasks,
                                       const std::vector<Pass>& passes, const LossSums& sums,
                                       const std::vector<tuplespace::ClientId>& put_by) {
  const std::size_t size = CountsRightAnswers(model) ? 2 : 1;
  std::size_t next = 0;
  std::optional<WrongLoss> by_nobody;
  for (const Pass& pass : passes) {
    for (const auto& [key, place, rows, is_of_sums] : tasks.Losses(pass)) {
      const std::vector<float>& sum = sums.at(next);
      const tuplespace::ClientId& by = put_by.at(next++);
      const float right = sum.size() > 1 ? sum[1] : 0;
      const bool counts =
          right >= 0 && right <= static_cast<float>(rows) && right == std::floor(right);
      const bool fits = sum.size() == size;
      if (fits && counts && !(sum[0] < 0)) continue;
      WrongLoss wrong{
          by, fits ? fmt::format("{} says that {} samples have a loss of {} and {} right answers",
                                 key.ToString(), rows, sum[0], right)
                   : fmt::format("{} has another size than {} bytes", key.ToString(), 4 * size)};
      if (!fits || !counts || !is_of_sums) return wrong;
      wrong.by.reset();
      if (!by_nobody) by_nobody = std::move(wrong);
    }
  }
  const auto norm = NormKey(tasks, passes);
  if (!norm) return by_nobody;
  if (sums.at(next).size() != 1) {
    return WrongLoss{put_by.at(next), fmt::format("{} has another size than {} bytes",
                                                  norm->ToString(), sizeof(float))};
  }
  const float squares = sums[next][0];
  if (by_nobody || !(squares < 0)) return by_nobody;
  return WrongLoss{std::nullopt,
                   fmt::format("{} says that a sum of squares is {}", norm->ToString(), squares)};
}

std::optional<double> GradientNormOf(const PassTasks& tasks, const std::vector<Pass>& passes,
                                     const LossSums& sums) {
  if (!NormKey(tasks, passes)) return std::nullopt;
  return std::sqrt(static_cast<double>(sums.back().front()));
}

LossTotal SumLosses(const PassTasks& tasks, const std::vector<Pass>& passes, const LossSums& sums,
                    std::int64_t block) {
  LossTotal total;
  std::size_t next = 0;
  for (const Pass& pass : passes) {
    std::vector<Range> ranges;
    for (const LossCell& loss : tasks.Losses(pass)) ranges.push_back(loss.place);
    LossSums of_pass(sums.begin() + static_cast<std::ptrdiff_t>(next),
                     sums.begin() + static_cast<std::ptrdiff_t>(next + ranges.size()));
    next += ranges.size();
    for (const std::vector<float>& part : of_pass) {
      if (part.size() > 1) total.right += static_cast<double>(part[1]);
    }
    for (const Combine& combine : CombineOrder(ranges, block)) {
      of_pass[combine.left][0] += of_pass[combine.right][0];
    }
    total.loss += of_pass.front()[0];
  }
  return total;
}

bool CountsRightAnswers(const TrainedModel& model) {
  return std::holds_alternative<model::CrossEntropy>(LossNode(model).op);
}

double LossesOf(const TrainedModel& model, const std::vector<Pass>& passes) {
  // The loss' first operand: logits or outputs.
  const model::Shape& of_outputs = model.evaluation.value(LossNode(model).operands.front()).shape;
  const std::int64_t each = CountsRightAnswers(model) ? 1 : of_outputs.features;
  std::int64_t losses = 0;
  for (const Pass& pass : passes) {
    const bool all = pass.counted_rows < 0;
    losses += each * (all ? pass.rows * of_outputs.rows : pass.counted_rows);
  }
  return static_cast<double>(losses);
}

}  // namespace acan
