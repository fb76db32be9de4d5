#include "perceptron_tasks.h"

#include <algorithm>
#include <cassert>
#include <span>

#include "perceptron_builder.h"

namespace acan {

std::vector<Range> NodesWithin(const Range& range, std::int64_t block, int level) {
  const std::int64_t span = block << level;
  std::vector<Range> nodes;
  for (std::int64_t begin = range.begin; begin < range.end; begin += span) {
    nodes.push_back({begin, std::min(begin + span, range.end)});
  }
  return nodes;
}

std::vector<PlannedTask> PerceptronTasks::Initialize(const std::string& job) const {
  Pass pass;
  pass.job = job;
  PerceptronBuilder builder(model_, training_, plan_, pass);
  builder.BuildInitialize();
  return std::move(builder).TakeTasks();
}

std::vector<PlannedTask> PerceptronTasks::Tasks(const Pass& pass) const {
  PerceptronBuilder builder(model_, training_, plan_, pass);
  for (int layer = 0; layer < model_.layer_count(); ++layer) builder.BuildForward(layer);
  builder.BuildLoss();
  if (pass.train) {
    for (int layer = model_.layer_count() - 1; layer >= 0; --layer) {
      if (layer > 0) builder.BuildBackward(layer);
      builder.BuildUpdate(layer);
    }
  }
  std::vector<PlannedTask> tasks = std::move(builder).TakeTasks();
  for (PlannedTask& task : tasks) task.task.timed = pass.timed;
  return tasks;
}

// The inputs are named as model::Mlp names them.
std::vector<DataCell> PerceptronTasks::DataCells(const Pass& pass) const {
  const PassKeys keys(pass.job, pass.step, pass.batch_id);
  const std::vector<Range> rows = NodesWithin({0, pass.rows}, plan_.block, plan_.BatchCellLevel());
  std::vector<DataCell> cells;
  for (const Range& b : rows) {
    for (const Range& f :
         NodesWithin({0, model_.layers.front()}, plan_.block, plan_.FeatureCellLevel(model_, 0))) {
      cells.push_back({keys.Features(StepTuple::kActivation, 0, b, f), "x", b, f});
    }
  }
  const bool classes = model_.loss == Loss::kCrossEntropy;
  const std::int64_t columns = classes ? 1 : model_.layers.back();
  for (const Range& b : rows) {
    cells.push_back(
        {keys.Rows(StepTuple::kTarget, b), classes ? "labels" : "targets", b, {0, columns}});
  }
  return cells;
}

std::vector<TileCell> PerceptronTasks::Tiles(const std::string& job, std::int64_t version) const {
  std::vector<TileCell> cells;
  const std::span<const ParameterState> states = StatesOf(StateCount(training_.optimizer));
  const auto add = [&](const Parameter& parameter, const Range& outputs, const Range& inputs) {
    for (const ParameterState state : states) {
      const MatrixId matrix{parameter.id, state};
      cells.push_back({TileKey(job, version, matrix, outputs, inputs), matrix, outputs, inputs});
    }
  };
  for (int layer = 0; layer < model_.layer_count(); ++layer) {
    const Parameter weight = WeightOf(model_, layer), bias = BiasOf(model_, layer);
    for (const TileRow& row : plan_.layers[static_cast<std::size_t>(layer)].rows) {
      for (const Range& i : NodesWithin({0, model_.inputs(layer)}, plan_.block, row.input_level)) {
        add(weight, row.outputs, i);
      }
      add(bias, row.outputs, {0, 1});
    }
  }
  return cells;
}

std::vector<LossCell> PerceptronTasks::Losses(const Pass& pass) const {
  const PassKeys keys(pass.job, pass.step, pass.batch_id);
  std::vector<LossCell> losses;
  const int level = plan_.layers.back().rows.front().batch_level;
  for (const Range& b : NodesWithin({0, pass.rows}, plan_.block, level)) {
    losses.push_back({keys.Rows(StepTuple::kLoss, b), b, b.size()});
  }
  return losses;
}

}  // namespace acan
