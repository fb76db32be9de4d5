#include "segment_task.h"

#include <algorithm>
#include <cassert>

#include "cells.h"
#include "operator_calls.h"
#include "part_sums.h"

namespace acan {
namespace {

// Each product with a part of a weight packs its other operand again.
constexpr std::size_t kMaxWeightParts = 4;

TaskKind KindOf(const PassContext& context, const Segment& segment) {
  const auto last = static_cast<int>(segment.nodes.end) - 1;
  return context.graph.node(last).is_backward ? TaskKind::kBackward : TaskKind::kForward;
}

}  // namespace

SegmentTask::SegmentTask(const PassContext& context, int segment, const Box& box, int part)
    : context_(context),
      segment_(segment),
      whole_box_(box),
      part_(part),
      builder_(KindOf(context, context.segments[static_cast<std::size_t>(segment)]),
               context.training),
      box_(box) {
  FindLastReaders();
}

PlannedTask SegmentTask::Build() && {
  ComputeFrom(segment().nodes.begin);
  const bool backward = KindOf(context_, segment()) == TaskKind::kBackward;
  const tuplespace::Key key = context_.keys.Task(
      backward ? TaskName::kBackward : TaskName::kForward, context_.training.precision, segment_,
      whole_box_.samples, whole_box_.positions, {part_, segment().column_parts});
  return std::move(*this).Take(key, SegmentPriority(context_.pass, segment_));
}

void SegmentTask::ComputeFrom(std::int64_t node) {
  for (; node < segment().nodes.end; ++node) Compute(static_cast<int>(node));
  PutValues();
  PutSums();
}

void SegmentTask::SetProduct(int buffer) {
  node_ = static_cast<int>(segment().nodes.begin);
  const LoweredValue& v = context_.Value(node().results[0]);
  std::int64_t width = v.columns;
  if (segment().column_parts > 1) width = segment().column_span;
  const Range columns{part_ * width, std::min((part_ + 1) * width, v.columns)};
  const Range of_root{v.first_column + columns.begin, v.first_column + columns.end};
  made_[v.root].push_back(of_root);
  HeldAt({v.root, of_root.begin}) = {buffer, of_root, true};
}

void SegmentTask::Finish() {
  ComputeFrom(segment().nodes.begin + 1);
}

PlannedTask SegmentTask::Take(tuplespace::Key key, std::int64_t priority) && {
  return std::move(builder_).Finish(std::move(key), priority, segment_);
}

void SegmentTask::FindLastReaders() {
  for (std::int64_t n = segment().nodes.begin; n < segment().nodes.end; ++n) {
    const LoweredNode& node = context_.graph.node(static_cast<int>(n));
    if (node.is_view) continue;
    for (const std::vector<int>* ids : {&node.operands, &node.results}) {
      for (const int id : *ids) {
        if (id >= 0) last_readers_[context_.Value(id).root] = static_cast<int>(n);
      }
    }
  }
}

void SegmentTask::Compute(int node) {
  node_ = node;
  const LoweredNode& n = context_.graph.node(node);
  if (n.is_view || n.is_shared) return;
  if (ReducesRows(context_.graph, node)) {
    // One part for each node of the tree of sums in the box.
    const RowOrder order = context_.OrderOf(context_.ReducedBy(node));
    for (const Box& of : order.NodesOf(whole_box_, context_.pass.rows)) {
      box_ = of;
      AddCalls(*this);
    }
    box_ = whole_box_;
  } else {
    AddCalls(*this);
  }
  ReleaseAfter(node);
}

// ---- buffers -----------------------------------------------------------------------------------

int SegmentTask::NewBuffer(std::int64_t rows, std::int64_t columns) {
  std::vector<int>& spare = spare_[{rows, columns}];
  if (spare.empty()) return builder_.NewBuffer(rows, columns);
  const int buffer = spare.back();
  spare.pop_back();
  return buffer;
}

View SegmentTask::Scratch(std::int64_t rows, std::int64_t columns) {
  scratch_.push_back(NewBuffer(rows, columns));
  return builder_.All(scratch_.back());
}

void SegmentTask::ReleaseAfter(int node) {
  const auto release = [&](int buffer) {
    const View all = builder_.All(buffer);
    spare_[{all.rows, all.cols}].push_back(buffer);
  };
  for (const int buffer : scratch_) release(buffer);
  scratch_.clear();
  // Examines only values that end here, because a segment may hold as many values as it has nodes.
  std::vector<Place> ending;
  while (!ending_.empty() && ending_.begin()->first <= node) {
    const std::vector<Place>& places = ending_.begin()->second;
    ending.insert(ending.end(), places.begin(), places.end());
    ending_.erase(ending_.begin());
  }
  std::sort(ending.begin(), ending.end());
  for (const Place& place : ending) {
    const Held& held = held_.at(place);
    const bool needed =
        (held.is_made && context_.grid.Crosses(place.first)) || builder_.IsInput(held.buffer);
    if (needed) continue;
    release(held.buffer);
    held_.erase(place);
  }
}

// A new value is released after the last node that reads it.
SegmentTask::Held& SegmentTask::HeldAt(const Place& place) {
  const auto [at, is_new] = held_.try_emplace(place);
  if (is_new) ending_[last_readers_.at(place.first)].push_back(place);
  return at->second;
}

View SegmentTask::ViewOf(const Held& held, const Range& columns, std::int64_t positions) const {
  const Range rows = box_.RowsOf(positions);
  return builder_.Part(held.buffer, rows.begin - whole_box_.RowsOf(positions).begin,
                       columns.begin - held.columns.begin, rows.size(), columns.size());
}

// ---- operands and results ----------------------------------------------------------------------

bool SegmentTask::Has(std::size_t operand) const {
  return operand < node().operands.size() && node().operands[operand] >= 0;
}

Range SegmentTask::OperandColumns(std::size_t operand) const {
  return ColumnsOf(context_.graph, node_, false, operand, part_, PartsOf(segment()));
}

std::int64_t SegmentTask::RowsOf(std::size_t operand) const {
  return box_.RowsOf(context_.Value(node().operands[operand]).rows).size();
}

View SegmentTask::Operand(std::size_t operand) {
  const int id = node().operands[operand];
  const LoweredValue& value = context_.Value(id);
  const Range columns = OperandColumns(operand);
  if (value.kind == ValueKind::kSum) return WholeSum(id);
  const auto* positions = std::get_if<model::LearnedPositions>(&node().node->op);
  if (positions != nullptr && !box_.HasWholeSamples() && value.kind == ValueKind::kParameter) {
    const Range rows{positions->first + box_.positions.begin,
                     positions->first + box_.positions.end};
    return GatherTiles(context_, builder_, value.index, rows, columns);
  }
  if (!value.IsOfSamples()) return GatherParameter(id, columns);
  const Range of_root{value.first_column + columns.begin, value.first_column + columns.end};
  const Box box = BoxOf(operand);
  if (!(box == whole_box_) && !made_.contains(value.root)) {
    return GatherBeside(box, value.root, of_root);
  }
  return ViewOf(Find(id, of_root), of_root, value.rows);
}

std::vector<SegmentTask::WeightRows> SegmentTask::RowsOfWeight(std::size_t operand) {
  const int id = node().operands[operand];
  const LoweredValue& value = context_.Value(id);
  const std::vector<Range> parts = value.kind == ValueKind::kParameter
                                       ? context_.RowsOfTiles(value.index)
                                       : std::vector<Range>{{0, value.rows}};
  if (parts.size() == 1 || parts.size() > kMaxWeightParts || !IsReadOnce(id)) {
    return {{{0, value.rows}, Operand(operand)}};
  }
  const Range columns = OperandColumns(operand);
  std::vector<WeightRows> all;
  all.reserve(parts.size());
  for (const Range& rows : parts) {
    all.push_back({rows, GatherTiles(context_, builder_, value.index, rows, columns)});
  }
  return all;
}

// Whether a single node of the segment reads the value.
bool SegmentTask::IsReadOnce(int value) const {
  std::ptrdiff_t readers = 0;
  for (std::int64_t n = segment().nodes.begin; n < segment().nodes.end; ++n) {
    const std::vector<int>& operands = context_.graph.node(static_cast<int>(n)).operands;
    readers += std::count(operands.begin(), operands.end(), value);
  }
  return readers == 1;
}

// If the box has the positions of a sample as queries, attention reads other positions as keys, and
// lengths belong to whole samples.
Box SegmentTask::BoxOf(std::size_t operand) const {
  const auto* attention = std::get_if<model::Attention>(&node().node->op);
  if (whole_box_.HasWholeSamples() || attention == nullptr) return whole_box_;
  const std::int64_t positions = context_.Value(node().operands[operand]).rows;
  if (positions == 1) return {whole_box_.samples, {}};
  const std::vector<model::Port>& ports = model::RowOf(*attention).operands;
  if (ports[operand].rows != model::Axis::kKeys) return whole_box_;
  return {whole_box_.samples, KeysSeenBy(*attention, whole_box_.positions, positions)};
}

// Gathers rows of a value other than those of the box, which only the current node reads.
View SegmentTask::GatherBeside(const Box& box, int root, const Range& columns) {
  const int buffer = GatherCells(context_, builder_, root, box, columns);
  if (!builder_.IsInput(buffer)) scratch_.push_back(buffer);
  return builder_.All(buffer);
}

// The buffer that holds `columns` of the value's root.
SegmentTask::Held& SegmentTask::Find(int value, const Range& columns) {
  const int root = context_.Value(value).root;
  for (auto it = held_.lower_bound({root, 0}); it != held_.end() && it->first.first == root; ++it) {
    if (!it->second.columns.Contains(columns)) continue;
    if (it->second.is_made) FillFromOthers(root, columns, &it->second);
    return it->second;
  }
  Held& held = HeldAt({root, columns.begin});
  held = {GatherCells(context_, builder_, root, whole_box_, columns), columns, false};
  return held;
}

// Several segments may make the operands of a concatenation: copies the parts of `columns` that
// others made into this segment's buffer.
void SegmentTask::FillFromOthers(int root, const Range& columns, Held* held) {
  std::vector<Range> there = made_.at(root);
  there.insert(there.end(), held->filled.begin(), held->filled.end());
  std::sort(there.begin(), there.end());
  there.push_back({columns.end, columns.end});
  std::int64_t begin = columns.begin;
  for (const Range& known : there) {
    const Range missing{begin, std::min(known.begin, columns.end)};
    begin = std::max(begin, known.end);
    if (missing.size() <= 0) continue;
    const View from = GatherBeside(whole_box_, root, missing);
    KernelScalars one;
    one.f[0] = 1.0f;
    const View to = builder_.Part(held->buffer, 0, missing.begin - held->columns.begin, from.rows,
                                  missing.size());
    builder_.Launch(Kernel::kScale, {to, from}, one);
    held->filled.push_back(missing);
  }
}

// Every task that reads a sum adds its parts itself, because such sums are vectors.
View SegmentTask::WholeSum(int value) {
  const auto known = whole_.find(value);
  if (known != whole_.end()) return known->second;
  const LoweredValue& v = context_.Value(value);
  const std::vector<ParameterTile> tiles = context_.TilesOfSum(value);
  const auto sum_of = [&](const ParameterTile& tile) {
    return SumOfParts(builder_, PartsOfSum(context_, value, tile), tile.rows.size(),
                      tile.columns.size());
  };
  if (tiles.size() == 1) return whole_[value] = builder_.All(sum_of(tiles.front()));
  const View whole = builder_.All(builder_.NewBuffer(v.rows, v.columns));
  for (const ParameterTile& tile : tiles) {
    const int sum = sum_of(tile);
    KernelScalars scalars;
    scalars.f[0] = 1.0f;
    builder_.Launch(Kernel::kScale,
                    {builder_.Part(whole.buffer, tile.rows.begin, tile.columns.begin,
                                   tile.rows.size(), tile.columns.size()),
                     builder_.All(sum)},
                    scalars);
  }
  return whole_[value] = whole;
}

// All rows of a parameter or a table.
View SegmentTask::GatherParameter(int value, const Range& columns) {
  const LoweredValue& v = context_.Value(value);
  const auto known = whole_.find(value);
  if (known != whole_.end()) {
    View view = known->second;
    view.col += static_cast<std::int32_t>(columns.begin);
    view.cols = static_cast<std::int32_t>(columns.size());
    return view;
  }
  if (v.kind == ValueKind::kTable) {
    const Range rows{0, v.rows}, all{0, v.columns};
    const int buffer = builder_.Input(
        context_.keys.Features(StepTuple::kActivation, value, rows, all), v.rows, v.columns);
    return whole_[value] = builder_.All(buffer);
  }
  assert(v.kind == ValueKind::kParameter);
  const View view = GatherTiles(context_, builder_, v.index, columns);
  if (columns.size() == v.columns) whole_[value] = view;
  return view;
}

View SegmentTask::Result(std::size_t result) {
  return ResultOf(node().results[result],
                  ColumnsOf(context_.graph, node_, true, result, part_, PartsOf(segment())));
}

View SegmentTask::ResultOf(int value, const Range& columns) {
  const LoweredValue& v = context_.Value(value);
  if (v.kind == ValueKind::kSum) return SumOf(value, columns);
  const Range of_root{v.first_column + columns.begin, v.first_column + columns.end};
  const std::int64_t rows = whole_box_.RowsOf(v.rows).size();
  std::vector<Range>& made = made_[v.root];
  if (made.empty() || !(made.back() == of_root)) made.push_back(of_root);
  const bool whole = segment().column_parts == 1;
  const Range held_columns = whole ? Range{0, context_.Value(v.root).columns} : of_root;
  Held& held = HeldAt({v.root, held_columns.begin});
  if (held.buffer < 0) held = {NewBuffer(rows, held_columns.size()), held_columns, true};
  return ViewOf(held, of_root, v.rows);
}

View SegmentTask::SumOf(int value, const Range& columns) {
  const LoweredValue& v = context_.Value(value);
  Range rows{0, v.rows};
  Box of = box_;
  if (!box_.HasWholeSamples() && IsPositionsGradient(context_.graph, node_)) {
    const bool is_last = box_.positions.end == context_.Value(node().operands[0]).rows;
    rows = {box_.positions.begin, is_last ? v.rows : box_.positions.end};
    of.positions = {};
  }
  const int buffer = builder_.NewBuffer(rows.size(), columns.size());
  sums_.push_back({value, buffer, rows, columns, of});
  return builder_.All(buffer);
}

// ---- what others read --------------------------------------------------------------------------

void SegmentTask::PutValues() {
  for (const auto& [root, ranges] : made_) {
    if (!context_.grid.Crosses(root)) continue;
    for (const Range& range : ranges) {
      const Held& held = Find(root, range);
      PutCells(context_, builder_, root, whole_box_, range, held.buffer, held.columns.begin);
    }
  }
}

void SegmentTask::PutSums() {
  for (const auto& [value, buffer, rows, columns, box] : sums_) {
    for (const ParameterTile& tile : context_.TilesOfSum(value)) {
      // Other tiles belong to other parts or boxes.
      if (!columns.Contains(tile.columns) || !rows.Contains(tile.rows)) continue;
      builder_.Put(
          context_.SumKey(value, box, tile),
          builder_.Part(buffer, tile.rows.begin - rows.begin, tile.columns.begin - columns.begin,
                        tile.rows.size(), tile.columns.size()));
    }
  }
}

}  // namespace acan
