#include "acan/manager/graph_tasks.h"

#include <cassert>
#include <iterator>
#include <span>
#include <utility>

#include "acan/core/optimizers.h"
#include "acan/core/rotary_angles.h"
#include "update_tasks.h"
#include "whole_pass.h"

namespace acan {
namespace {

// The node of the only loss.
int LossNode(const LoweredGraph& graph) {
  assert(graph.graph().losses().size() == 1);
  return graph.value(graph.graph().losses().front()).producer;
}

}  // namespace

std::vector<PlannedTask> GraphTasks::Initialize(const std::string& job) const {
  Pass pass;
  pass.job = job;
  const WholePass whole(model_.training, cuts_, cuts_.training, training_, pass);
  return InitializeTasks(whole.context);
}

std::vector<PlannedTask> GraphTasks::Tasks(const Pass& pass) const {
  const WholePass whole(GraphOf(pass), cuts_, SegmentsOf(pass), training_, pass);
  std::vector<PlannedTask> tasks;
  for (int s = 0; s < static_cast<int>(SegmentsOf(pass).size()); ++s) {
    whole.Append(s, whole.Boxes(s), &tasks);
  }
  if (pass.train) {
    for (PlannedTask& task : UpdateTasks(whole.context)) tasks.push_back(std::move(task));
  }
  for (PlannedTask& task : tasks) task.task.timed = pass.timed;
  return tasks;
}

std::vector<DataCell> GraphTasks::InputCells(const Pass& pass) const {
  const WholePass whole(GraphOf(pass), cuts_, SegmentsOf(pass), training_, pass);
  std::vector<DataCell> cells;
  const model::Graph& graph = GraphOf(pass).graph();
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const int value = graph.inputs()[i].value;
    if (!whole.grid.Crosses(value)) continue;  // nobody reads it
    const LoweredValue& v = whole.context.Value(value);
    for (const Box& box : BoxesOf(whole.grid.RowsOf(value), pass.rows, v.rows)) {
      const Range rows = box.RowsOf(v.rows);
      for (const Range& columns : whole.grid.ColumnsWithin(value, {0, v.columns})) {
        cells.push_back({whole.context.keys.Features(StepTuple::kActivation, value, rows, columns),
                         graph.inputs()[i].name, rows, columns});
      }
    }
  }
  return cells;
}

std::vector<tuplespace::Tuple> GraphTasks::Tables(const Pass& pass) const {
  const LoweredGraph& graph = GraphOf(pass);
  const PassKeys keys(pass.job, pass.step, pass.batch_id);
  std::vector<tuplespace::Tuple> tuples;
  for (std::size_t id = 0; id < graph.values().size(); ++id) {
    const LoweredValue& value = graph.values()[id];
    if (value.kind != ValueKind::kTable) continue;
    const RotaryTable& table = graph.tables()[static_cast<std::size_t>(value.index / 2)];
    const RotaryTables angles = MakeRotaryTables(0, table.positions, table.head_size, table.base);
    const std::vector<float>& values = value.index % 2 == 0 ? angles.cosine : angles.sine;
    tuplespace::Tuple tuple;
    tuple.key = keys.Features(StepTuple::kActivation, static_cast<int>(id), {0, value.rows},
                              {0, value.columns});
    tuple.payload = tuplespace::Payload::Copy(values.data(), 4 * values.size());
    tuples.push_back(std::move(tuple));
  }
  return tuples;
}

std::vector<TileCell> GraphTasks::Tiles(const std::string& job, std::int64_t version) const {
  Pass pass;
  pass.job = job;
  pass.step = version;
  const WholePass whole(model_.training, cuts_, cuts_.training, training_, pass);
  std::vector<TileCell> cells;
  const std::vector<model::Parameter>& parameters = model_.training.graph().parameters();
  for (std::int32_t p = 0; p < static_cast<std::int32_t>(parameters.size()); ++p) {
    for (const ParameterTile& tile : whole.context.Tiles(p)) {
      for (const ParameterState state : whole.context.MatricesOf(p)) {
        cells.push_back({whole.context.TileKeyOf(p, tile, version, state),
                         {acan::ParameterId{p}, state},
                         tile.rows,
                         tile.columns,
                         parameters[static_cast<std::size_t>(p)].frozen});
      }
    }
  }
  return cells;
}

std::vector<LossCell> GraphTasks::Losses(const Pass& pass) const {
  const WholePass whole(GraphOf(pass), cuts_, SegmentsOf(pass), training_, pass);
  const int node = LossNode(whole.context.graph);
  const int x = whole.context.graph.node(node).operands.front();
  const std::int64_t positions = whole.context.Value(x).rows;
  std::vector<LossCell> losses;
  for (const Box& box : whole.Boxes(whole.grid.SegmentOf(node))) {
    const Range place = whole.context.OrderOf(x).PlaceOf(box);
    losses.push_back(
        {whole.context.keys.Rows(StepTuple::kLoss, place), place, box.RowsOf(positions).size()});
  }
  return losses;
}

std::optional<tuplespace::Key> GraphTasks::GradientNorm(const Pass& pass) const {
  if (!pass.train || training_.clip_norm == 0) return std::nullopt;
  return PassKeys(pass.job, pass.step, pass.batch_id).Batch(StepTuple::kGradientNorm);
}

}  // namespace acan
