#include "tiled_segment.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <utility>

#include "acan/manager/task_builder.h"
#include "cells.h"
#include "part_sums.h"
#include "row_product.h"
#include "segment_task.h"

namespace acan {
namespace {

// A product [rows, made] = [rows, read] with a matrix whose tiles run along both axes: linear
// operators read along its columns and make along its rows, their gradients the other way round.
class TiledSegment {
 public:
  TiledSegment(const PassContext& context, int segment)
      : context_(context),
        segment_(segment),
        node_id_(static_cast<int>(context.segments[static_cast<std::size_t>(segment)].nodes.begin)),
        tiled_(TiledNodeOf(context.graph, node_id_)),
        node_(context.graph.node(node_id_)) {
    const model::Parameter& p = context.ParameterOf(tiled_.parameter);
    const ParameterCut& cut = context.cuts.parameters[static_cast<std::size_t>(tiled_.parameter)];
    rows_ = NodesOfLevel(p.rows, context.cuts.block, cut.row_level);
    columns_ = NodesOfLevel(p.columns, context.cuts.block, cut.column_level);
    const int level = IsForward() ? cut.column_level : cut.row_level;
    tile_span_ = context.cuts.block << level;
    const int joined = context.segments[static_cast<std::size_t>(segment)].joined_levels;
    read_ = NodesOfLevel(IsForward() ? p.columns : p.rows, context.cuts.block, level + joined);
  }

  std::vector<PlannedTask> Build(const std::vector<Box>& boxes) && {
    tasks_.reserve(boxes.size() * TasksOfBox());
    for (const Box& box : boxes) {
      box_ = box;
      if (IsProduct()) {
        for (const Range& made : Made()) BuildProduct(made);
      } else {
        for (const Range& r : rows_) {
          for (const Range& c : columns_) BuildGradient({r, c});
        }
      }
    }
    return std::move(tasks_);
  }

  std::vector<TaskSample> Sample(const Box& box) && {
    box_ = box;
    is_sampled_ = true;
    std::vector<TaskSample> samples;
    const auto take = [&](std::int64_t count) {
      repeats_.resize(tasks_.size(), 1);
      for (std::size_t i = 0; i < tasks_.size(); ++i) {
        samples.push_back({std::move(tasks_[i]), count, repeats_[i]});
      }
      tasks_.clear();
      repeats_.clear();
    };
    if (IsProduct()) {
      for (const auto& [made, count] : Kinds(Made(), AlongMade())) {
        BuildProduct(made);
        take(count);
      }
      return samples;
    }
    for (const auto& [r, r_count] : Kinds(rows_, tiled_.along_rows)) {
      for (const auto& [c, c_count] : Kinds(columns_, tiled_.along_columns)) {
        BuildGradient({r, c});
        take(r_count * c_count);
      }
    }
    return samples;
  }

 private:
  // The bias of a linear operator; -1: none.
  int Bias() const { return IsForward() && node_.operands.size() > 2 ? node_.operands[2] : -1; }
  bool IsProduct() const {
    return IsForward() || std::holds_alternative<model::LinearInputGradient>(node_.node->op);
  }
  // Besides those that add parts of sums.
  std::size_t TasksOfBox() const {
    if (!IsProduct()) return rows_.size() * columns_.size();
    return Made().size() * (Read().size() > 1 ? Read().size() + 1 : 1);
  }
  // Made: the ranges of the product's result columns. Read: the ranges over which a task sums.
  const std::vector<Range>& Made() const { return IsForward() ? rows_ : columns_; }
  const std::vector<Range>& Read() const { return read_; }
  // Values of samples that have the product's result columns.
  std::vector<int> AlongMade() const {
    std::vector<int> values{node_.results[0]};
    const Range& nodes = context_.segments[static_cast<std::size_t>(segment_)].nodes;
    for (std::int64_t n = nodes.begin + 1; n < nodes.end; ++n) {
      const LoweredNode& node = context_.graph.node(static_cast<int>(n));
      for (const std::vector<int>* ids : {&node.operands, &node.results}) {
        for (const int id : *ids) {
          if (id >= 0 && context_.Value(id).IsOfSamples()) values.push_back(id);
        }
      }
    }
    return values;
  }
  // The first range of each kind, and how many there are. Ranges of one kind have as many columns
  // and cells of the values.
  std::vector<std::pair<Range, std::int64_t>> Kinds(const std::vector<Range>& ranges,
                                                    const std::vector<int>& values) const {
    std::map<std::vector<std::int64_t>, std::pair<Range, std::int64_t>> kinds;
    for (const Range& range : ranges) {
      std::vector<std::int64_t> kind{range.size()};
      for (const int value : values) {
        const LoweredValue& v = context_.Value(value);
        kind.push_back(context_.grid.CellsWithin(
            v.root, {v.first_column + range.begin, v.first_column + range.end}));
      }
      if (const int bias = Bias(); bias >= 0) {
        const auto tiles = context_.TilesWithin(context_.Value(bias).index, range);
        kind.push_back(tiles.back().columns.end - tiles.front().columns.begin);
      }
      auto& [first, count] = kinds[std::move(kind)];
      if (count++ == 0) first = range;
    }
    std::vector<std::pair<Range, std::int64_t>> all;
    for (const auto& [kind, range] : kinds) all.push_back(range);
    return all;
  }
  // The sizes and cells of the tiles that a part of a product reads.
  std::vector<std::int64_t> KindOfRead(const Range& range) const {
    const LoweredValue& x = context_.Value(node_.operands[0]);
    std::vector<std::int64_t> kind{range.size()};
    for (std::int64_t begin = range.begin; begin < range.end; begin += tile_span_) {
      kind.push_back(context_.grid.CellsWithin(
          x.root,
          {x.first_column + begin, x.first_column + std::min(begin + tile_span_, range.end)}));
    }
    return kind;
  }
  Range Rows() const { return box_.RowsOf(context_.Value(node_.operands[0]).rows); }
  bool IsForward() const { return std::holds_alternative<model::Linear>(node_.node->op); }
  std::int64_t Priority() const { return SegmentPriority(context_.pass, segment_); }

  int Gather(TaskBuilder& task, int value, const Range& columns) const {
    const LoweredValue& v = context_.Value(value);
    return GatherCells(context_, task, v.root, box_,
                       {v.first_column + columns.begin, v.first_column + columns.end});
  }

  // Adds the bias, if there is one, computes the nodes after the product, and puts the cells.
  void FinishProduct(SegmentTask& segment_task, int sums, const Range& made) const {
    TaskBuilder& task = segment_task.builder();
    int out = sums;
    if (Bias() >= 0) {
      out = task.Writable(sums);
      const View bias = GatherTiles(context_, task, context_.Value(Bias()).index, made);
      KernelScalars scalars;
      scalars.i[0] = static_cast<std::int64_t>(Activation::kIdentity);
      task.Launch(Kernel::kBiasActivation, {task.All(out), task.All(sums), bias, View{}}, scalars);
    }
    segment_task.SetProduct(out);
    segment_task.Finish();
  }

  SegmentTask TaskOf(const Range& made) const {
    const Segment& segment = context_.segments[static_cast<std::size_t>(segment_)];
    const std::int64_t part = segment.column_parts > 1 ? made.begin / segment.column_span : 0;
    return SegmentTask(context_, segment_, box_, static_cast<int>(part));
  }

  tuplespace::Key TaskKey(TaskName name, const Range& made, const Range& read) const {
    return context_.keys.Task(name, context_.training.precision, segment_, Rows(), made, read);
  }

  // Multiplies the tiles of a node of the tree, and adds their products. `spare` has buffers of
  // sums [rows, made] that were added into others.
  int Multiply(TaskBuilder& task, const Range& made, const Range& read,
               std::vector<int>* spare) const {
    if (read.size() <= tile_span_) return MultiplyTile(task, made, read, spare);
    const auto [left, right] = Halve(read, context_.cuts.block);
    const int sum = Multiply(task, made, left, spare);
    const int other = Multiply(task, made, right, spare);
    task.Launch(Kernel::kAdd, {task.All(sum), task.All(sum), task.All(other)});
    spare->push_back(other);
    return sum;
  }
  int Multiply(TaskBuilder& task, const Range& made, const Range& read) const {
    std::vector<int> spare;
    return Multiply(task, made, read, &spare);
  }

  int MultiplyTile(TaskBuilder& task, const Range& made, const Range& read,
                   std::vector<int>* spare) const {
    const int x = Gather(task, node_.operands[0], read);
    const ParameterTile tile = IsForward() ? ParameterTile{made, read} : ParameterTile{read, made};
    const int w = task.Input(context_.TileKeyOf(tiled_.parameter, tile, context_.pass.step),
                             tile.rows.size(), tile.columns.size());
    task.SetAffinity(w);
    int y = -1;
    if (spare->empty()) {
      y = task.NewBuffer(Rows().size(), made.size());
    } else {
      y = spare->back();
      spare->pop_back();
    }
    task.Gemm(IsForward() ? GemmForm::kForward : GemmForm::kBackward, x, w, y);
    return y;
  }

  void BuildProduct(const Range& made) {
    if (Read().size() > 1) return BuildSplitProduct(made);
    SegmentTask task = TaskOf(made);
    FinishProduct(task, Multiply(task.builder(), made, Read().front()), made);
    const TaskName name = IsForward() ? TaskName::kForward : TaskName::kBackward;
    tasks_.push_back(std::move(task).Take(TaskKey(name, made, Read().front()), Priority()));
  }

  // What the task that adds the last parts holds besides them: the bias, what the nodes after the
  // product read and make, and copied cells.
  std::uint64_t MatricesBehind(const Range& made) const {
    std::uint64_t matrices = 1;
    const std::vector<int> values = AlongMade();
    for (const int id : std::set<int>(values.begin(), values.end())) {
      const LoweredValue& v = context_.Value(id);
      const Range columns{v.first_column + made.begin, v.first_column + made.end};
      if (id != node_.results[0]) ++matrices;
      if (context_.grid.CellsWithin(v.root, columns) > 1) ++matrices;
    }
    return matrices;
  }

  // Splits the product along the axis that it sums over.
  void BuildSplitProduct(const Range& made) {
    const Range rows = Rows();
    const StepTuple part_kind = IsForward() ? StepTuple::kForwardPart : StepTuple::kBackwardPart;
    SumNames names;
    names.key = [&](const Range& range) {
      return context_.keys.Box(part_kind, node_id_, rows, made, range);
    };
    std::vector<SumPart> parts;
    std::vector<std::int64_t> last_kind;
    for (const Range& range : Read()) {
      parts.push_back({range, names.key(range)});
      // For samples, consecutive equal parts are built once.
      if (is_sampled_) {
        std::vector<std::int64_t> kind = KindOfRead(range);
        if (kind == last_kind) {
          ++repeats_.back();
          continue;
        }
        last_kind = std::move(kind);
      }
      TaskBuilder task(IsForward() ? TaskKind::kForward : TaskKind::kBackward, context_.training);
      const int y = Multiply(task, made, range);
      task.Put(parts.back().key, task.All(y));
      Add(std::move(task), IsForward() ? TaskName::kForward : TaskName::kBackward, made, range,
          Priority());
      repeats_.resize(tasks_.size(), 1);
    }
    const TaskName sum_name = IsForward() ? TaskName::kForwardSum : TaskName::kBackwardSum;
    names.task_key = [&](const Range& range) { return TaskKey(sum_name, made, range); };
    names.priority = Priority() + 1;
    names.segment = segment_;
    names.beside = MatricesBehind(made);
    parts = ReduceParts(context_, std::move(parts), rows.size(), made.size(), names, &tasks_);
    SegmentTask task = TaskOf(made);
    FinishProduct(task, SumOfParts(task.builder(), parts, rows.size(), made.size()), made);
    const TaskName name = IsForward() ? TaskName::kActivation : TaskName::kActivationGradient;
    tasks_.push_back(std::move(task).Take(TaskKey(name, made, {0, 0}), Priority() + 1));
  }

  // A tile of the gradient of a linear operator's weight, or of a table: one part for each node of
  // the tree in the box.
  void BuildGradient(const ParameterTile& tile) {
    TaskBuilder task(TaskKind::kUpdate, context_.training);
    const auto* table = std::get_if<model::EmbeddingGradient>(&node_.node->op);
    const View first =
        task.All(Gather(task, node_.operands[0], table != nullptr ? Range{0, 1} : tile.rows));
    const View second = task.All(Gather(task, node_.operands[1], tile.columns));
    const int reduced = context_.ReducedBy(node_id_);
    const RowOrder order = context_.OrderOf(reduced);
    for (const Box& of : order.NodesOf(box_, context_.pass.rows)) {
      const Range rows = of.RowsOf(context_.Value(reduced).rows);
      const View a = RowsOfView(first, rows), b = RowsOfView(second, rows);
      const View d = task.All(task.NewBuffer(tile.rows.size(), tile.columns.size()));
      if (table != nullptr) {
        KernelScalars scalars;
        scalars.i = {context_.cuts.block, order.group_rows(), tile.rows.begin,
                     table->forward.padding_id};
        task.Launch(Kernel::kEmbeddingGradient, {d, a, b}, scalars);
      } else {
        AddRowProduct(task, order, of, a, b, d);
      }
      task.Put(context_.SumKey(node_.results[0], of, tile), d);
    }
    Add(std::move(task), TaskName::kGradient, tile.rows, tile.columns, Priority());
  }

  // `rows` of the batch from a view that has the rows of the box.
  View RowsOfView(View view, const Range& rows) const {
    view.row += static_cast<std::int32_t>(rows.begin - Rows().begin);
    view.rows = static_cast<std::int32_t>(rows.size());
    return view;
  }

  void Add(TaskBuilder&& task, TaskName name, const Range& a, const Range& b,
           std::int64_t priority) {
    tasks_.push_back(std::move(task).Finish(TaskKey(name, a, b), priority, segment_));
  }

  const PassContext& context_;
  const int segment_;
  const int node_id_;
  const TiledNode tiled_;
  const LoweredNode& node_;
  std::vector<Range> rows_, columns_;  // of the tiles
  std::int64_t tile_span_ = 0;         // along the axis that a product sums over
  std::vector<Range> read_;
  Box box_;
  std::vector<PlannedTask> tasks_;
  bool is_sampled_ = false;
  std::vector<std::int64_t> repeats_;  // of tasks_, if sampled
};

}  // namespace

std::vector<PlannedTask> TiledTasks(const PassContext& context, int segment,
                                    const std::vector<Box>& boxes) {
  return TiledSegment(context, segment).Build(boxes);
}

std::vector<TaskSample> SampleTiledTasks(const PassContext& context, int segment, const Box& box) {
  return TiledSegment(context, segment).Sample(box);
}

}  // namespace acan
