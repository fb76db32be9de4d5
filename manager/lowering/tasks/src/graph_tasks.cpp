#include "acan/manager/graph_tasks.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <span>
#include <utility>

#include "acan/core/optimizers.h"
#include "acan/core/rotary_angles.h"
#include "part_sums.h"
#include "segment_tasks.h"
#include "update_tasks.h"

namespace acan {

struct GraphGrids {
  ValueGrid training;
  ValueGrid evaluation;
};

namespace {

// The node of the only loss.
int LossNode(const LoweredGraph& graph) {
  assert(graph.graph().losses().size() == 1);
  return graph.value(graph.graph().losses().front()).producer;
}

bool IsInPhases(const PassContext& context, int node) {
  return std::any_of(context.segments.begin(), context.segments.end(), [&](const Segment& segment) {
    return segment.in_phases && segment.nodes.begin <= node && node < segment.nodes.end;
  });
}

}  // namespace

LoweredModel LowerGraphs(const model::Graph& training, const model::Graph& evaluation) {
  const auto of_training = std::make_shared<const model::Graph>(model::WithoutOutputs(training));
  LoweredModel lowered{
      LoweredGraph(of_training),
      LoweredGraph(std::make_shared<const model::Graph>(model::WithoutOutputs(evaluation)))};
  for (const Recompute recompute : {Recompute::kElements, Recompute::kBranches}) {
    lowered.computing_again.emplace_back(of_training, recompute);
  }
  return lowered;
}

std::shared_ptr<const GraphGrids> MakeGrids(const LoweredModel& model, const GraphCuts& cuts) {
  return std::make_shared<const GraphGrids>(
      GraphGrids{ValueGrid(model.TrainingOf(cuts.recompute), cuts, cuts.training),
                 ValueGrid(model.evaluation, cuts, cuts.evaluation)});
}

GraphTasks::GraphTasks(const LoweredModel& model, const Training& training, const GraphCuts& cuts,
                       std::shared_ptr<const GraphGrids> grids)
    : model_(model),
      training_(training),
      cuts_(cuts),
      grids_(grids ? std::move(grids) : MakeGrids(model, cuts)) {}

PassContext GraphTasks::ContextOf(const Pass& pass) const {
  return {GraphOf(pass),
          cuts_,
          pass.train ? cuts_.training : cuts_.evaluation,
          pass.train ? grids_->training : grids_->evaluation,
          training_,
          pass,
          PassKeys(pass.job, pass.step, pass.batch_id)};
}

std::vector<PlannedTask> GraphTasks::Initialize(const std::string& job) const {
  Pass pass;
  pass.job = job;
  const PassContext context = ContextOf(pass);
  return InitializeTasks(context);
}

std::vector<PlannedTask> GraphTasks::Tasks(const Pass& pass) const {
  const PassContext context = ContextOf(pass);
  std::vector<PlannedTask> tasks;
  for (int s = 0; s < static_cast<int>(context.segments.size()); ++s) {
    AppendTasks(context, s, BoxesOfSegment(context, s), &tasks);
  }
  if (pass.train) AppendTo(&tasks, UpdateTasks(context));
  for (PlannedTask& task : tasks) {
    assert(!task.task.outputs.empty());  // otherwise nobody would see that it is done
    task.task.timed = pass.timed;
  }
  return tasks;
}

std::vector<DataCell> GraphTasks::InputCells(const Pass& pass) const {
  const PassContext context = ContextOf(pass);
  std::vector<DataCell> cells;
  const model::Graph& graph = GraphOf(pass).graph();
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const int value = graph.inputs()[i].value;
    if (!context.grid.Crosses(value)) continue;  // not read by any segment
    const LoweredValue& v = context.Value(value);
    for (const Box& box : BoxesOf(context.grid.RowsOf(value), pass.rows, v.rows)) {
      const Range rows = box.RowsOf(v.rows);
      context.grid.ForColumnsWithin(value, {0, v.columns}, [&](const Range& columns) {
        cells.push_back({context.keys.Features(StepTuple::kActivation, value, rows, columns),
                         graph.inputs()[i].name, rows, columns});
      });
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
  const PassContext context = ContextOf(pass);
  std::vector<TileCell> cells;
  const std::vector<model::Parameter>& parameters = model_.training.graph().parameters();
  for (std::int32_t p = 0; p < static_cast<std::int32_t>(parameters.size()); ++p) {
    for (const ParameterTile& tile : context.Tiles(p)) {
      for (const ParameterState state : context.MatricesOf(p)) {
        cells.push_back({context.TileKeyOf(p, tile, version, state),
                         {ParameterId{p}, state},
                         tile.rows,
                         tile.columns,
                         parameters[static_cast<std::size_t>(p)].frozen});
      }
    }
  }
  return cells;
}

std::vector<LossCell> GraphTasks::Losses(const Pass& pass) const {
  const PassContext context = ContextOf(pass);
  const int node = LossNode(context.graph);
  const int reduced = context.ReducedBy(node);
  const RowOrder order = context.OrderOf(reduced);
  const bool is_of_sums = IsInPhases(context, node);
  std::vector<LossCell> losses;
  for (const Box& box : PartBoxesOf(context, node)) {
    const Range place = order.PlaceOf(box);
    losses.push_back({context.keys.Rows(StepTuple::kLoss, place), place,
                      box.RowsOf(context.Value(reduced).rows).size(), is_of_sums});
  }
  return losses;
}

std::optional<tuplespace::Key> GraphTasks::GradientNorm(const Pass& pass) const {
  if (!pass.train || training_.clip_norm == 0) return std::nullopt;
  return PassKeys(pass.job, pass.step, pass.batch_id).Batch(StepTuple::kGradientNorm);
}

}  // namespace acan
