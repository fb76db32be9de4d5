// GraphTasks: the tasks of a pass of a graph under its cuts, as tuples that name their inputs.
// Pure: nothing is put or computed here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acan/core/model.h"
#include "acan/manager/graph_cuts.h"
#include "acan/manager/lowered_graph.h"
#include "acan/manager/planned_task.h"

namespace acan {

// A model's graphs for training, with gradients, and for evaluation, with the same parameters in
// the same order. Immutable; for any thread.
struct LoweredModel {
  LoweredGraph training;
  LoweredGraph evaluation;
  // The training graph with Recompute::kElements and kBranches. If empty, cuts have kNothing.
  std::vector<LoweredGraph> computing_again = {};

  const LoweredGraph& TrainingOf(Recompute recompute) const {
    if (recompute == Recompute::kNothing) return training;
    return computing_again[static_cast<std::size_t>(recompute) - 1];
  }
};
// Lowers a model's two graphs, without nodes that serve only outputs: neither training nor
// evaluation reads outputs.
LoweredModel LowerGraphs(const model::Graph& training, const model::Graph& evaluation);

// The cells of a model's values under its cuts. Immutable; holds no references.
struct GraphGrids;
struct PassContext;
std::shared_ptr<const GraphGrids> MakeGrids(const LoweredModel& model, const GraphCuts& cuts);

class GraphTasks {
 public:
  // The references must outlive it. `grids` belongs to this model and these cuts; if it is null,
  // the constructor makes it.
  GraphTasks(const LoweredModel& model, const Training& training, const GraphCuts& cuts,
             std::shared_ptr<const GraphGrids> grids = nullptr);

  std::vector<PlannedTask> Initialize(const std::string& job) const;
  // The tasks, in an order in which they can run.
  std::vector<PlannedTask> Tasks(const Pass& pass) const;
  std::vector<DataCell> InputCells(const Pass& pass) const;
  // The tables that the manager computes: tuples with their bytes.
  std::vector<tuplespace::Tuple> Tables(const Pass& pass) const;
  std::vector<TileCell> Tiles(const std::string& job, std::int64_t version) const;
  std::vector<LossCell> Losses(const Pass& pass) const;
  // The key of the sum of the squares of all gradients, [1, 1]; nullopt if the training does not
  // need it.
  std::optional<tuplespace::Key> GradientNorm(const Pass& pass) const;

 private:
  const LoweredGraph& GraphOf(const Pass& pass) const {
    return pass.train ? model_.TrainingOf(cuts_.recompute) : model_.evaluation;
  }
  PassContext ContextOf(const Pass& pass) const;

  const LoweredModel& model_;
  const Training& training_;
  const GraphCuts& cuts_;
  const std::shared_ptr<const GraphGrids> grids_;
};

}  // namespace acan
