// Phases: what the tasks of nodes that are computed in phases have in common.
#pragma once

#include <cassert>
#include <cstdint>
#include <utility>
#include <vector>

#include "acan/manager/task_builder.h"
#include "cells.h"
#include "part_sums.h"
#include "pass_context.h"

namespace acan {

class Phases {
 public:
  Phases(const PassContext& context, int segment)
      : context_(context),
        segment_(segment),
        node_id_(static_cast<int>(Segment().nodes.begin)),
        node_(context.graph.node(node_id_)) {}

  std::vector<PlannedTask> Take() && { return std::move(tasks_); }

 protected:
  const acan::Segment& Segment() const {
    return context_.segments[static_cast<std::size_t>(segment_)];
  }
  const LoweredValue& Operand(std::size_t operand) const {
    return context_.Value(node_.operands[operand]);
  }
  Range RowsOf(const Box& box) const { return box.RowsOf(Operand(0).rows); }
  std::int64_t Priority() const { return SegmentPriority(context_.pass, segment_); }
  TaskBuilder NewTask() const { return {TaskKind::kForward, context_.training}; }

  int Gather(TaskBuilder& task, std::size_t operand, const Box& box, const Range& columns) const {
    const LoweredValue& v = Operand(operand);
    return GatherCells(context_, task, v.root, box,
                       {v.first_column + columns.begin, v.first_column + columns.end});
  }
  // Puts the cells of a result that other segments read.
  void PutResult(TaskBuilder& task, std::size_t result, const Box& box, int buffer) const {
    const LoweredValue& v = context_.Value(node_.results[result]);
    assert(v.first_column == 0 || context_.grid.Crosses(v.root));
    if (!context_.grid.Crosses(v.root)) return;
    PutCells(context_, task, v.root, box, {v.first_column, v.first_column + v.columns}, buffer,
             v.first_column);
  }

  // The key of a tuple between phases.
  tuplespace::Key PartKey(const Box& box, const Range& part, std::int64_t phase) const {
    return context_.keys.Box(StepTuple::kForwardPart, node_id_, RowsOf(box), part,
                             {phase, phase + 1});
  }
  tuplespace::Key TaskKey(TaskName name, const Box& box, const Range& part,
                          std::int64_t phase) const {
    return context_.keys.Task(name, context_.training.precision, segment_, RowsOf(box), part,
                              {phase, phase + 1});
  }
  void Add(TaskBuilder&& task, TaskName name, const Box& box, const Range& part,
           std::int64_t phase) {
    tasks_.push_back(std::move(task).Finish(TaskKey(name, box, part, phase),
                                            Priority() + (phase > 0 ? 1 : 0), segment_));
  }
  // Adds parts until one task can read the remaining ones.
  std::vector<SumPart> Reduced(const Box& box, std::vector<SumPart> parts, std::int64_t columns,
                               std::int64_t phase) {
    SumNames names;
    names.key = [&](const Range& range) { return PartKey(box, range, phase); };
    names.task_key = [&](const Range& range) {
      return TaskKey(TaskName::kForwardSum, box, range, phase);
    };
    names.priority = Priority() + 1;
    names.segment = segment_;
    names.beside = MatricesBesideSums(context_.training);
    return ReduceParts(context_, std::move(parts), RowsOf(box).size(), columns, names, &tasks_);
  }

  const PassContext& context_;
  const int segment_;
  const int node_id_;
  const LoweredNode& node_;
  std::vector<PlannedTask> tasks_;
};

}  // namespace acan
