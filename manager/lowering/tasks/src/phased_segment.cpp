#include "phased_segment.h"

#include <cassert>
#include <utility>

#include "node_calls.h"
#include "phases.h"

namespace acan {
namespace {

View Column(View view, std::int32_t column) {
  view.col += column;
  view.cols = 1;
  return view;
}

class PhasedEmbedding : public Phases {
 public:
  using Phases::Phases;

  void Build(const Box& box) {
    const std::int32_t table = Operand(1).index;
    const model::Parameter& parameter = context_.ParameterOf(table);
    const ParameterCut& cut = context_.cuts.parameters[static_cast<std::size_t>(table)];
    std::vector<SumPart> parts;
    for (const Range& rows : NodesOfLevel(parameter.rows, context_.cuts.block, cut.row_level)) {
      TaskBuilder task = NewTask();
      const int ids = Gather(task, 0, box, {0, 1});
      const int of_table = task.NewBuffer(rows.size(), parameter.columns);
      for (const Range& columns :
           NodesOfLevel(parameter.columns, context_.cuts.block, cut.column_level)) {
        const tuplespace::Key key = context_.TileKeyOf(table, {rows, columns}, context_.pass.step);
        task.AddPiece(of_table, key, 0, columns.begin, rows.size(), columns.size());
      }
      task.SetAffinity(of_table);
      const View out = task.All(task.NewBuffer(RowsOf(box).size(), parameter.columns));
      task.Launch(Kernel::kEmbedding, {out, task.All(ids), task.All(of_table)},
                  Scalars({}, {rows.begin, parameter.rows}));
      parts.push_back({rows, PartKey(box, rows, 0)});
      task.Put(parts.back().key, out);
      Add(std::move(task), TaskName::kForward, box, rows, 0);
    }
    parts = Reduced(box, std::move(parts), parameter.columns, 0);
    TaskBuilder task = NewTask();
    PutResult(task, 0, box, SumOfParts(task, parts, RowsOf(box).size(), parameter.columns));
    Add(std::move(task), TaskName::kActivation, box, {0, 0}, 1);
  }
};

class PhasedCrossEntropy : public Phases {
 public:
  using Phases::Phases;

  void Build(const Box& box) {
    classes_.clear();
    for (int part = 0; part < Segment().column_parts; ++part) {
      classes_.push_back(ColumnsOf(context_.graph, node_id_, false, 0, part, PartsOf(Segment())));
    }
    const tuplespace::Key largest = Maxima(box);
    std::vector<SumPart> parts;
    for (const Range& of : classes_) {
      TaskBuilder task = NewTask();
      const int logits = Gather(task, 0, box, of), labels = Gather(task, 1, box, {0, 1});
      const View maxima = task.All(task.Input(largest, RowsOf(box).size(), 2));
      const View sums = task.All(task.NewBuffer(RowsOf(box).size(), 3));
      task.Launch(Kernel::kClassSums, {sums, task.All(logits), Column(maxima, 0), task.All(labels)},
                  Scalars({}, {of.begin}));
      parts.push_back({of, PartKey(box, of, 2)});
      task.Put(parts.back().key, sums);
      Add(std::move(task), TaskName::kForward, box, of, 2);
    }
    Finish(box, largest, Reduced(box, std::move(parts), 3, 2));
  }

 private:
  // The key of a tuple with each row's largest logit and the first column that has it.
  tuplespace::Key Maxima(const Box& box) {
    const std::int64_t rows = RowsOf(box).size();
    for (const Range& of : classes_) {
      TaskBuilder task = NewTask();
      const int logits = Gather(task, 0, box, of);
      const View maxima = task.All(task.NewBuffer(rows, 2));
      task.Launch(Kernel::kClassMaxima, {Column(maxima, 0), Column(maxima, 1), task.All(logits)},
                  Scalars({}, {of.begin}));
      task.Put(PartKey(box, of, 0), maxima);
      Add(std::move(task), TaskName::kForward, box, of, 0);
    }
    TaskBuilder task = NewTask();
    View left = task.All(task.Input(PartKey(box, classes_.front(), 0), rows, 2));
    View out = task.All(task.NewBuffer(rows, 2)), spare = task.All(task.NewBuffer(rows, 2));
    for (std::size_t i = 1; i < classes_.size(); ++i) {
      const View right = task.All(task.Input(PartKey(box, classes_[i], 0), rows, 2));
      task.Launch(Kernel::kCombineMaxima, {Column(out, 0), Column(out, 1), Column(left, 0),
                                           Column(left, 1), Column(right, 0), Column(right, 1)});
      left = out;
      std::swap(out, spare);
    }
    tuplespace::Key key = PartKey(box, {0, Operand(0).columns}, 1);
    task.Put(key, left);
    Add(std::move(task), TaskName::kForwardSum, box, {0, Operand(0).columns}, 1);
    return key;
  }

  // Puts the hidden results, each row's loss, and, for each node of the tree of sums over rows, the
  // sums of the losses and right answers.
  void Finish(const Box& box, const tuplespace::Key& largest, const std::vector<SumPart>& parts) {
    const std::int64_t rows = RowsOf(box).size();
    const auto& op = std::get<model::CrossEntropy>(node_.node->op);
    TaskBuilder task = NewTask();
    const int sums = SumOfParts(task, parts, rows, 3);
    const View maxima = task.All(task.Input(largest, rows, 2));
    const int labels = Gather(task, 1, box, {0, 1});
    const int column = task.NewBuffer(rows, 1);
    task.Launch(Kernel::kScale, {task.All(column), Column(maxima, 0)}, Scalars({1.0f}, {}));
    const View per_row = task.All(task.NewBuffer(rows, 2));
    task.Launch(Kernel::kCrossEntropyLoss,
                {Column(per_row, 0), Column(per_row, 1), task.All(sums), Column(maxima, 1),
                 task.All(labels)},
                Scalars({op.label_smoothing}, {Operand(0).columns, op.ignored_label}));
    PutResult(task, 2, box, column);
    PutResult(task, 3, box, sums);
    const RowOrder order = context_.OrderOf(node_.operands[0]);
    for (const Box& of : order.NodesOf(box, context_.pass.rows)) {
      const Range within = RowsOf(of);
      View view = per_row;
      view.row += static_cast<std::int32_t>(within.begin - RowsOf(box).begin);
      view.rows = static_cast<std::int32_t>(within.size());
      const View loss = task.All(task.NewBuffer(1, 2));
      task.Launch(Kernel::kColumnDots, {loss, view, View{}},
                  Scalars({}, {context_.cuts.block, order.group_rows()}));
      task.Put(context_.keys.Rows(StepTuple::kLoss, order.PlaceOf(of)), loss);
    }
    Add(std::move(task), TaskName::kActivation, box, {0, 0}, 3);
  }

  std::vector<Range> classes_;
};

template <class Kind>
std::vector<PlannedTask> Build(const PassContext& context, int segment,
                               const std::vector<Box>& boxes) {
  Kind phases(context, segment);
  for (const Box& box : boxes) phases.Build(box);
  return std::move(phases).Take();
}

}  // namespace

std::vector<PlannedTask> PhasedTasks(const PassContext& context, int segment,
                                     const std::vector<Box>& boxes) {
  const auto node = context.segments[static_cast<std::size_t>(segment)].nodes.begin;
  const model::Operator& op = context.graph.node(static_cast<int>(node)).node->op;
  if (std::holds_alternative<model::Embedding>(op)) {
    return Build<PhasedEmbedding>(context, segment, boxes);
  }
  assert(std::holds_alternative<model::CrossEntropy>(op));
  return Build<PhasedCrossEntropy>(context, segment, boxes);
}

}  // namespace acan
