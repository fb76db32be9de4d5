// PassTasks: the tasks of one pass (a training step, an evaluation batch, or the initialization)
// under a plan, as tuples that name their inputs. Pure: nothing is put or computed here.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/model.h"
#include "acan/manager/plan.h"
#include "acan/manager/planned_task.h"
#include "acan/manager/trained_model.h"

namespace acan {

using PlannedModel = std::shared_ptr<const LoweredModel>;
// Lowers the graphs of a model.
PlannedModel LowerModel(const std::shared_ptr<const TrainedModel>& model);

class PassTasks {
 public:
  // The training and the plan must outlive it.
  PassTasks(PlannedModel model, const Training& training, const Plan& plan)
      : model_(std::move(model)), training_(training), plan_(plan) {}

  std::vector<PlannedTask> Initialize(const std::string& job) const;
  // The tasks, in an order in which they can run.
  std::vector<PlannedTask> Tasks(const Pass& pass) const;
  // Whether the calls of training steps are alike but for the optimizer's scalars.
  bool RepeatsCalls() const;
  const Training& training() const { return training_; }
  std::vector<DataCell> DataCells(const Pass& pass) const;
  // The tables that the manager computes for a pass: tuples with their bytes.
  std::vector<tuplespace::Tuple> Tables(const Pass& pass) const;
  std::vector<TileCell> Tiles(const std::string& job, std::int64_t version) const;
  std::vector<LossCell> Losses(const Pass& pass) const;
  // The key of the sum of the squares of all gradients, [1, 1]; nullopt if the training does not
  // need it.
  std::optional<tuplespace::Key> GradientNorm(const Pass& pass) const;

 private:
  GraphTasks Graph() const { return {*model_, training_, plan_.cuts, plan_.grids}; }

  const PlannedModel model_;
  const Training& training_;
  const Plan& plan_;
};

}  // namespace acan
