#include "parameter_gradients.h"

#include <cassert>
#include <utility>

#include "part_sums.h"

namespace acan {

std::vector<std::vector<TileOf>> Bundles(const PassContext& context,
                                         const std::function<bool(std::int32_t)>& takes) {
  std::vector<std::vector<TileOf>> bundles;
  std::uint64_t bytes = UINT64_MAX;
  const auto parameters = static_cast<std::int32_t>(context.graph.graph().parameters().size());
  for (std::int32_t p = 0; p < parameters; ++p) {
    if (!takes(p)) continue;
    for (const ParameterTile& tile : context.Tiles(p)) {
      const TileOf of{p, tile};
      if (bundles.empty() || bytes + of.bytes() > context.cuts.update_bytes) {
        bundles.emplace_back();
        bytes = 0;
      }
      bundles.back().push_back(of);
      bytes += of.bytes();
    }
  }
  return bundles;
}

int TileSums::Buffer(TaskBuilder& task, int value, const TileOf& of, std::int64_t priority) const {
  const LoweredValue& v = context_.Value(value);
  if (v.kind != ValueKind::kShared) return SumBuffer(task, value, of, priority);
  const LoweredNode& node = context_.graph.node(v.producer);
  assert(std::holds_alternative<model::Add>(node.node->op));
  const int a = Buffer(task, node.operands[0], of, priority);
  const int b = Buffer(task, node.operands[1], of, priority);
  const int out = task.IsInput(a) ? task.Writable(b) : a;
  task.Launch(Kernel::kAdd, {task.All(out), task.All(a), task.All(b)});
  return out;
}

int TileSums::SumBuffer(TaskBuilder& task, int value, const TileOf& of,
                        std::int64_t priority) const {
  std::vector<SumPart> parts = PartsOfSum(context_, value, of.tile);
  SumNames names;
  names.key = [&](const Range& place) { return context_.SumKey(value, place, of.tile); };
  names.task_key = [&](const Range& place) {
    return context_.keys.Task(TaskName::kGradientSum, context_.training.precision, value,
                              of.tile.rows, of.tile.columns, place);
  };
  names.priority = priority;
  names.layer = context_.LastLayer();
  parts = ReduceParts(context_, std::move(parts), of.rows(), of.columns(), names, tasks_);
  return SumOfParts(task, parts, of.rows(), of.columns());
}

WholeGradient WholeGradientOf(const PassContext& context, const TileOf& of) {
  const int value = context.graph.GradientOf(of.parameter);
  if (context.Value(value).kind == ValueKind::kSum) {
    std::vector<SumPart> parts = PartsOfSum(context, value, of.tile);
    if (parts.size() == 1) return {std::move(parts.front().key), true};
  }
  return {context.SumKey(value, Range{0, 0}, of.tile), false};  // no part has an empty place
}

}  // namespace acan
