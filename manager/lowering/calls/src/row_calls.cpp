#include "acan/manager/row_calls.h"

#include <fmt/format.h>

#include <cassert>
#include <map>
#include <optional>
#include <utility>

#include "segment_task.h"
#include "value_grid.h"

namespace acan {
namespace {

// One task with all nodes and samples, and one tile per parameter.
GraphCuts WholeCuts(const LoweredGraph& graph, std::int64_t block, int last_node,
                    std::int64_t samples) {
  GraphCuts cuts;
  cuts.block = block;
  const RowCut rows{samples, 0};
  const auto end = static_cast<std::int64_t>(graph.nodes().size());
  cuts.evaluation = {{{0, last_node + 1}, rows}, {{last_node + 1, end}, rows}};
  for (const model::Parameter& parameter : graph.graph().parameters()) {
    cuts.parameters.push_back(
        {RootLevel(parameter.rows, block), RootLevel(parameter.columns, block)});
  }
  return cuts;
}

// Finds the source of each input of the planned task by its key.
class Sources {
 public:
  Sources(const PassContext& context, const Box& box) {
    for (std::size_t id = 0; id < context.graph.values().size(); ++id) {
      const LoweredValue& value = context.graph.values()[id];
      if (value.kind != ValueKind::kInput && value.kind != ValueKind::kTable) continue;
      const bool is_input = value.kind == ValueKind::kInput;
      const Range rows = is_input ? box.RowsOf(value.rows) : Range{0, value.rows};
      sources_[context.keys.Features(StepTuple::kActivation, static_cast<int>(id), rows,
                                     {0, value.columns})] = {
          is_input ? RowCalls::Source::kInput : RowCalls::Source::kTable, value.index};
    }
    const auto count = static_cast<std::int32_t>(context.graph.graph().parameters().size());
    for (std::int32_t parameter = 0; parameter < count; ++parameter) {
      for (const ParameterTile& tile : context.Tiles(parameter)) {
        sources_[context.TileKeyOf(parameter, tile, context.pass.step)] = {
            RowCalls::Source::kParameter, parameter};
      }
    }
  }

  const std::pair<RowCalls::Source, std::int32_t>& Of(const tuplespace::Key& key) const {
    return sources_.at(key);
  }

 private:
  std::map<tuplespace::Key, std::pair<RowCalls::Source, std::int32_t>> sources_;
};

// The scalars of kAttention (operators.inc).
constexpr std::size_t kQueries = 1, kKeys = 2, kFirstQuery = 5;
// Operands of kAttention.
constexpr std::size_t kKeyOperand = 3, kValueOperand = 4;

// Attention over all keys so far: first appends the keys of these rows to the cached ones.
void AttendToCaches(const LoweredGraph& graph, const Range& positions, RowCalls* rows) {
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  std::vector<std::int64_t> all_positions;
  for (const LoweredNode& node : graph.nodes()) {
    if (!std::holds_alternative<model::Attention>(node.node->op)) continue;
    all_positions.push_back(graph.value(node.operands[1]).rows);
  }
  std::vector<Call> calls;
  std::size_t attention = 0;
  for (Call& call : rows->task.calls) {
    if (call.gemm || call.kernel != Kernel::kAttention) {
      calls.push_back(std::move(call));
      continue;
    }
    for (const std::size_t operand : {kKeyOperand, kValueOperand}) {
      View& view = call.views[operand];
      const auto cache = static_cast<std::uint32_t>(rows->task.buffers.size());
      rows->task.buffers.push_back({narrow(all_positions[attention]), view.cols});
      rows->caches.push_back(cache);
      const auto buffer = static_cast<std::int32_t>(cache);
      Call copy;
      copy.kernel = Kernel::kScale;
      copy.views = {{buffer, narrow(positions.begin), 0, narrow(positions.size()), view.cols},
                    view};
      copy.scalars.f[0] = 1.0f;
      calls.push_back(std::move(copy));
      view = {buffer, 0, 0, narrow(positions.end), view.cols};
    }
    call.scalars.i[kQueries] = positions.size();
    call.scalars.i[kKeys] = positions.end;
    call.scalars.i[kFirstQuery] = positions.begin;
    calls.push_back(std::move(call));
    ++attention;
  }
  rows->task.calls = std::move(calls);
}

// Why an operator needs later rows; nullopt if it does not.
struct NeedsLaterRows {
  using Reason = std::optional<std::string>;

  Reason operator()(const model::Attention& op) const {
    if (op.mask == model::AttentionMask::kCausal) return std::nullopt;
    return "sees later positions: its mask is not causal";
  }
  Reason operator()(const model::Slice& op) const { return ByFeatures(op.axis); }
  Reason operator()(const model::Concat& op) const { return ByFeatures(op.axis); }
  Reason operator()(const model::Linear&) const { return std::nullopt; }
  Reason operator()(const model::Embedding&) const { return std::nullopt; }
  Reason operator()(const model::LearnedPositions&) const { return std::nullopt; }
  Reason operator()(const model::Rotary&) const { return std::nullopt; }
  Reason operator()(const model::LayerNorm&) const { return std::nullopt; }
  Reason operator()(const model::RmsNorm&) const { return std::nullopt; }
  Reason operator()(const model::BatchNormInference&) const { return std::nullopt; }
  Reason operator()(const model::Add&) const { return std::nullopt; }
  Reason operator()(const model::Multiply&) const { return std::nullopt; }
  Reason operator()(const model::Scale&) const { return std::nullopt; }
  Reason operator()(const model::ScaleColumns&) const { return std::nullopt; }
  Reason operator()(const model::Activation&) const { return std::nullopt; }
  Reason operator()(const model::SwiGlu&) const { return std::nullopt; }
  template <class Other>
  Reason operator()(const Other&) const {
    return "mixes the positions of a sample";
  }

 private:
  static Reason ByFeatures(model::SliceAxis axis) {
    if (axis == model::SliceAxis::kFeatures) return std::nullopt;
    return "moves positions";
  }
};

RowCalls CallsOf(const LoweredGraph& graph, const Training& training, int last_node,
                 const Box& box) {
  const GraphCuts cuts = WholeCuts(graph, training.block, last_node, box.samples.size());
  Pass pass;
  pass.rows = box.samples.size();
  pass.train = false;
  const ValueGrid grid(graph, cuts, cuts.evaluation);
  const PassContext context{graph,
                            cuts,
                            cuts.evaluation,
                            grid,
                            training,
                            pass,
                            PassKeys(pass.job, pass.step, pass.batch_id)};
  PlannedTask planned = SegmentTask(context, 0, box).Build();

  RowCalls rows;
  rows.task = std::move(planned.task);
  const Sources sources(context, box);
  for (const Piece& piece : rows.task.pieces) {
    assert(CoversBuffer(piece, rows.task));
    const auto& [source, index] = sources.Of(planned.inputs[piece.input]);
    rows.inputs.push_back({source, index, piece.buffer});
  }
  const int last = graph.node(last_node).results.front();
  const LoweredValue& value = graph.value(last);
  const tuplespace::Key key =
      context.keys.Features(StepTuple::kActivation, value.root, box.RowsOf(value.rows),
                            {value.first_column, value.first_column + value.columns});
  for (const Output& output : rows.task.outputs) {
    if (output.key == key) rows.result = output.view;
  }
  return rows;
}

}  // namespace

RowCalls CallsOfRows(const LoweredGraph& graph, const Training& training, int last_node,
                     const Range& positions) {
  RowCalls rows = CallsOf(graph, training, last_node, {{0, 1}, positions});
  AttendToCaches(graph, positions, &rows);
  return rows;
}

RowCalls CallsOfSamples(const LoweredGraph& graph, const Training& training, int last_node,
                        std::int64_t samples) {
  return CallsOf(graph, training, last_node, {{0, samples}, {}});
}

std::string WhyNotByRows(const LoweredGraph& graph, int last_node) {
  for (int id = 0; id <= last_node; ++id) {
    const LoweredNode& node = graph.node(id);
    std::optional<std::string> reason = std::visit(NeedsLaterRows(), node.node->op);
    const bool has_lengths = std::holds_alternative<model::Attention>(node.node->op) &&
                             node.operands.size() > 3 && node.operands[3] >= 0;
    if (has_lengths) reason = "takes the lengths of samples";
    if (!reason) continue;
    return fmt::format("node '{}' ({}) {}", node.node->name, model::RowOf(node.node->op).name,
                       *reason);
  }
  return "";
}

}  // namespace acan
