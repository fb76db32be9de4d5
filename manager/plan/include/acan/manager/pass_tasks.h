// PassTasks: the tasks of one pass (a training step, an evaluation batch, or the initialisation)
// under a plan, as tuples that name their inputs. Pure; nothing is put or computed here.
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

// A model as it is planned: a perceptron layer by layer, any other by the nodes of its graphs.
struct PlannedModel {
  std::optional<Model> perceptron;
  std::shared_ptr<const LoweredModel> graphs;  // null: a perceptron

  PlannedModel() = default;
  PlannedModel(Model model)
      : perceptron(std::move(model)) {}  // NOLINT(google-explicit-constructor)
  // Throws Error (failure) for operators that have no calls yet.
  explicit PlannedModel(const std::shared_ptr<const TrainedModel>& model);
};

class PassTasks {
 public:
  // The training and the plan must outlive it.
  PassTasks(PlannedModel model, const Training& training, const Plan& plan)
      : model_(std::move(model)), training_(training), plan_(plan) {}

  std::vector<PlannedTask> Initialize(const std::string& job) const;
  // In an order in which they can run.
  std::vector<PlannedTask> Tasks(const Pass& pass) const;
  std::vector<DataCell> DataCells(const Pass& pass) const;
  // What the manager computes itself for a pass: tuples with their bytes.
  std::vector<tuplespace::Tuple> Tables(const Pass& pass) const;
  std::vector<TileCell> Tiles(const std::string& job, std::int64_t version) const;
  std::vector<LossCell> Losses(const Pass& pass) const;

 private:
  GraphTasks Graph() const;  // REQUIRES: model_.graphs

  const PlannedModel model_;
  const Training& training_;
  const Plan& plan_;
};

}  // namespace acan
