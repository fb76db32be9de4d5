// Graph: the tasks of one pass (a training step, an evaluation batch, or the initialisation) under
// a plan, as tuples that name their inputs. A pure function; nothing is put or computed here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "acan/core/model.h"
#include "acan/manager/plan.h"
#include "acan/manager/planned_task.h"

namespace acan {

class Graph {
 public:
  Graph(const Model& model, const Training& training, const Plan& plan)
      : model_(model), training_(training), plan_(plan) {}

  std::vector<PlannedTask> Initialize(const std::string& job) const;
  std::vector<PlannedTask> Tasks(const Pass& pass) const;

  std::vector<DataCell> DataCells(const Pass& pass) const;
  std::vector<TileCell> Tiles(const std::string& job, std::int64_t version) const;
  // One tuple [1, n] for each range of rows: sum of losses and, for cross-entropy, correct answers.
  std::vector<std::pair<tuplespace::Key, Range>> Losses(const Pass& pass) const;

 private:
  const Model& model_;
  const Training& training_;
  const Plan& plan_;
};

}  // namespace acan
