// PerceptronTasks: the tasks of a pass of a multi-layer perceptron, layer by layer.
#pragma once

#include <string>
#include <vector>

#include "acan/manager/plan.h"
#include "acan/manager/planned_task.h"

namespace acan {

class PerceptronTasks {
 public:
  // The references must outlive it.
  PerceptronTasks(const Model& model, const Training& training, const Plan& plan)
      : model_(model), training_(training), plan_(plan) {}

  std::vector<PlannedTask> Initialize(const std::string& job) const;
  std::vector<PlannedTask> Tasks(const Pass& pass) const;
  std::vector<DataCell> DataCells(const Pass& pass) const;
  std::vector<TileCell> Tiles(const std::string& job, std::int64_t version) const;
  std::vector<LossCell> Losses(const Pass& pass) const;

 private:
  const Model& model_;
  const Training& training_;
  const Plan& plan_;
};

}  // namespace acan
