#include "parameter_gradients.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "cells.h"
#include "part_sums.h"
#include "row_product.h"
#include "tuplespace/space_limits.h"

namespace acan {

namespace {

// The two functions below are of SumForUpdate, and give 0 if there is none, or no batch.

// How many matrices of a tile's size a gradient or another sum takes while its parts are added.
std::uint64_t MatricesOfGradient(const PassContext& context, int value) {
  if (value < 0 || context.pass.rows == 0) return 0;
  const LoweredValue& v = context.Value(value);
  if (v.kind == ValueKind::kSum) {
    if (IsComputedByUpdates(context, value)) return 1;
    return MatricesOfSum(PartBoxesOf(context, v.producer).size());
  }
  std::uint64_t matrices = 0;
  for (const int operand : context.graph.node(v.producer).operands) {
    matrices += MatricesOfGradient(context, operand);
  }
  return matrices;
}

// What a task reads to make a tile of it.
struct Reads {
  std::uint64_t inputs = 0;  // the maximum number
  std::uint64_t bytes = 0;   // of values of samples that it gathers
  std::uint64_t flops = 0;   // of the products of these values
};
Reads ReadsOfGradient(const PassContext& context, int value, const TileOf& of) {
  Reads reads;
  if (value < 0 || context.pass.rows == 0) return reads;
  const LoweredValue& v = context.Value(value);
  const LoweredNode& node = context.graph.node(v.producer);
  if (v.kind == ValueKind::kShared) {
    for (const int operand : node.operands) {
      const Reads more = ReadsOfGradient(context, operand, of);
      reads.inputs += more.inputs;
      reads.bytes += more.bytes;
      reads.flops += more.flops;
    }
  } else if (IsComputedByUpdates(context, value)) {
    const OperandsOfSum operands(node, of.tile);
    if (operands.end() - operands.begin() == 2) {
      const std::int64_t rows = context.pass.rows * context.Value(operands.begin()->first).rows;
      reads.flops += 2 * static_cast<std::uint64_t>(rows * of.rows() * of.columns());
    }
    for (const auto& [operand, columns] : operands) {
      const std::int64_t cells = CellsOfBatch(context, operand, columns);
      const std::int64_t rows = context.pass.rows * context.Value(operand).rows;
      const bool in_pieces = cells > 1;  // that are put together
      reads.inputs += static_cast<std::uint64_t>(cells);
      reads.bytes += (in_pieces ? 8 : 4) * static_cast<std::uint64_t>(rows * columns.size());
    }
  } else {
    reads.inputs = std::min<std::uint64_t>(PartBoxesOf(context, v.producer).size(), kMaxPartsOfSum);
  }
  return reads;
}

using Bundle = std::vector<TileOf>;

// What the update of a tile takes.
struct TileUpdate {
  TileOf of;
  std::uint64_t need = 0;  // bytes of memory
  std::uint64_t inputs = 0;
  double time = 0;  // in the time in which a core reads or writes a byte
};

std::vector<TileUpdate> TileUpdates(const PassContext& context,
                                    const std::function<bool(std::int32_t)>& takes) {
  constexpr double kFlopsPerByte = 10;  // that a core does while it reads or writes a byte
  std::vector<TileUpdate> updates;
  const auto parameters = static_cast<std::int32_t>(context.graph.graph().parameters().size());
  for (std::int32_t p = 0; p < parameters; ++p) {
    if (!takes(p)) continue;
    const int sum = SumForUpdate(context.graph, p);
    const std::uint64_t matrices =
        MatricesBesideSums(context.training) + MatricesOfGradient(context, sum);
    for (const ParameterTile& tile : context.Tiles(p)) {
      TileUpdate& update = updates.emplace_back(TileUpdate{{p, tile}});
      const Reads reads = ReadsOfGradient(context, sum, update.of);
      update.need = update.of.bytes() * matrices + reads.bytes;
      update.inputs = MatricesBesideSums(context.training) + reads.inputs;
      update.time =
          static_cast<double>(update.need) + static_cast<double>(reads.flops) / kFlopsPerByte;
    }
  }
  return updates;
}

// Whether a task that needs these bytes and inputs is too large.
bool IsTooLarge(const PassContext& context, std::uint64_t need, std::uint64_t inputs) {
  return need > context.cuts.task_bytes || inputs > tuplespace::SpaceLimits{}.task_inputs;
}

// Each bundle takes the next tiles, until they have update_bytes.
std::vector<Bundle> InOrder(const PassContext& context, const std::vector<TileUpdate>& updates) {
  constexpr std::uint64_t kPartOver = 8;
  std::vector<Bundle> bundles;
  std::uint64_t bytes = 0, over_bytes = 0, need = 0, inputs = 0;
  for (const TileUpdate& update : updates) {
    const TileOf& of = update.of;
    // A bundle may exceed its share slightly: a separate task for a bias would cost more than the
    // bias's arithmetic.
    const bool is_over = bytes + of.bytes() > context.cuts.update_bytes;
    const bool is_too_much =
        is_over && over_bytes + of.bytes() > context.cuts.update_bytes / kPartOver;
    if (bundles.empty() || is_too_much ||
        IsTooLarge(context, need + update.need, inputs + update.inputs)) {
      bundles.emplace_back();
      bytes = over_bytes = need = inputs = 0;
    } else if (is_over) {
      over_bytes += of.bytes();
    }
    bundles.back().push_back(of);
    bytes += of.bytes();
    need += update.need;
    inputs += update.inputs;
  }
  return bundles;
}

// The longest update first, each to the bundle that takes the least time so far. Empty if a bundle
// would be too large, or have nothing to do.
std::vector<Bundle> Shared(const PassContext& context, const std::vector<TileUpdate>& updates) {
  struct Share {
    std::vector<std::size_t> updates;
    std::uint64_t need = 0, inputs = 0;
  };
  std::vector<Share> shares(context.cuts.update_tasks);
  std::vector<std::size_t> longest(updates.size());
  std::iota(longest.begin(), longest.end(), std::size_t{0});
  std::ranges::stable_sort(longest, std::greater<>(),
                           [&](std::size_t i) { return updates[i].time; });
  std::set<std::pair<double, std::size_t>> by_time;
  for (std::size_t i = 0; i < shares.size(); ++i) by_time.emplace(0, i);
  for (const std::size_t i : longest) {
    const auto [time, to] = *by_time.begin();
    by_time.erase(by_time.begin());
    by_time.emplace(time + updates[i].time, to);
    Share& share = shares[to];
    share.updates.push_back(i);
    share.need += updates[i].need;
    share.inputs += updates[i].inputs;
    if (IsTooLarge(context, share.need, share.inputs)) return {};
  }
  std::vector<Bundle> bundles;
  for (Share& share : shares) {
    if (share.updates.empty()) return {};
    std::ranges::sort(share.updates);
    Bundle& bundle = bundles.emplace_back();
    for (const std::size_t i : share.updates) bundle.push_back(updates[i].of);
  }
  return bundles;
}

}  // namespace

std::vector<Bundle> Bundles(const PassContext& context,
                            const std::function<bool(std::int32_t)>& takes) {
  const std::vector<TileUpdate> updates = TileUpdates(context, takes);
  if (context.cuts.update_tasks > 0) {
    if (std::vector<Bundle> shared = Shared(context, updates); !shared.empty()) return shared;
  }
  return InOrder(context, updates);
}

bool IsComputedByUpdates(const PassContext& context, int value) {
  const int segment = context.grid.SegmentOf(context.Value(value).producer);
  return context.segments[static_cast<std::size_t>(segment)].in_updates;
}

OperandsOfSum::OperandsOfSum(const LoweredNode& node, const ParameterTile& tile) {
  if (std::holds_alternative<model::LinearWeightGradient>(node.node->op)) {
    operands_ = {{{node.operands[0], tile.rows}, {node.operands[1], tile.columns}}};
    count_ = 2;
    return;
  }
  assert(std::holds_alternative<model::ColumnSums>(node.node->op));
  operands_[0] = {node.operands[0], tile.columns};
  count_ = 1;
}

std::int64_t CellsOfBatch(const PassContext& context, int value, const Range& columns) {
  const LoweredValue& v = context.Value(value);
  return CountBoxes(context.grid.RowsOf(v.root), context.pass.rows, context.Value(v.root).rows) *
         context.grid.CellsWithin(v.root,
                                  {v.first_column + columns.begin, v.first_column + columns.end});
}

// Computes the tile from the rows of the whole batch.
int TileSums::Compute(TaskBuilder& task, int value, const TileOf& of) const {
  const LoweredNode& node = context_.graph.node(context_.Value(value).producer);
  const Box all{{0, context_.pass.rows}, {}};
  std::vector<View> views;
  views.reserve(2);
  for (const auto& [operand, columns] : OperandsOfSum(node, of.tile)) {
    const LoweredValue& v = context_.Value(operand);
    views.push_back(
        task.All(GatherCells(context_, task, v.root, all,
                             {v.first_column + columns.begin, v.first_column + columns.end})));
  }
  const RowOrder order = context_.OrderOf(node.operands[0]);
  const int sum = task.NewBuffer(of.rows(), of.columns());
  if (views.size() == 2) {
    AddRowProduct(task, order, all, views[0], views[1], task.All(sum));
    return sum;
  }
  KernelScalars scalars;
  scalars.i = {context_.cuts.block, order.group_rows()};
  task.Launch(Kernel::kColumnDots, {task.All(sum), views[0], View{}}, scalars);
  return sum;
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
  if (IsComputedByUpdates(context_, value)) return Compute(task, value, of);
  std::vector<SumPart> parts = PartsOfSum(context_, value, of.tile);
  SumNames names;
  names.key = [&](const Range& place) { return context_.SumKey(value, place, of.tile); };
  names.task_key = [&](const Range& place) {
    return context_.keys.Task(TaskName::kGradientSum, context_.training.precision, value,
                              of.tile.rows, of.tile.columns, place);
  };
  names.priority = priority;
  names.segment = context_.SegmentOfUpdates();
  names.sums = static_cast<std::uint64_t>(
      std::max<std::int64_t>(1, SumsOfGradient(context_.graph, of.parameter)));
  names.beside = MatricesBesideSums(context_.training);
  parts = ReduceParts(context_, std::move(parts), of.rows(), of.columns(), names, tasks_);
  return SumOfParts(task, parts, of.rows(), of.columns());
}

WholeGradient WholeGradientOf(const PassContext& context, const TileOf& of) {
  const int value = context.graph.GradientOf(of.parameter);
  if (context.Value(value).kind == ValueKind::kSum && !IsComputedByUpdates(context, value)) {
    std::vector<SumPart> parts = PartsOfSum(context, value, of.tile);
    if (parts.size() == 1) return {std::move(parts.front().key), true};
  }
  return {context.SumKey(value, Range{0, 0}, of.tile), false};  // no part has an empty place
}

}  // namespace acan
