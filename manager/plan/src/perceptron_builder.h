// PerceptronBuilder: writes down the tasks of one pass, layer by layer. See perceptron_tasks.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "acan/manager/plan.h"
#include "acan/manager/planned_task.h"
#include "acan/manager/task_builder.h"
#include "acan/manager/tuple_names.h"

namespace acan {

// The nodes of `level` in `range`, which is itself a node or starts and ends with nodes.
std::vector<Range> NodesWithin(const Range& range, std::int64_t block, int level);

class PerceptronBuilder {
 public:
  PerceptronBuilder(const Model& model, const Training& training, const Plan& plan,
                    const Pass& pass);

  void BuildInitialize();
  void BuildForward(int layer);
  void BuildLoss();
  void BuildBackward(int layer);
  void BuildUpdate(int layer);
  std::vector<PlannedTask> TakeTasks() && { return std::move(tasks_); }

 private:
  // A partial sum in the space: over `range` of the axis that is reduced.
  struct Partial {
    Range range;
    tuplespace::Key key;
  };

  std::int64_t block() const { return training_.block; }
  const std::vector<TileRow>& RowsOf(int layer) const;
  std::vector<Range> BatchNodes(int level) const;
  bool LastLayer(int layer) const { return layer == model_.layer_count() - 1; }
  bool LossIsFused() const;
  // Of the version that the pass reads.
  tuplespace::Key Tile(const Parameter& parameter, const Range& outputs, const Range& inputs,
                       ParameterState state = ParameterState::kValue) const;

  // A buffer with [rows, features] of boundary `boundary`, gathered from the cells in the space.
  int Gather(TaskBuilder& task, StepTuple kind, int boundary, const Range& rows,
             const Range& features) const;
  // Puts `buffer` = [rows, features] of the boundary into the space, cell by cell.
  void Scatter(TaskBuilder& task, StepTuple kind, int boundary, const Range& rows,
               const Range& features, int buffer) const;
  // Reduces partial sums of shape [shape_rows, shape_cols] over the reduced axis, by tasks that add
  // some of them up, until few enough are left for one task.
  template <class KeyOf>
  std::vector<Partial> Reduce(std::vector<Partial> parts, std::int64_t shape_rows,
                              std::int64_t shape_cols, const KeyOf& key_of, TaskKind kind,
                              TaskName name, std::int64_t priority, int layer, const Range& a,
                              const Range& b);
  int SumOf(TaskBuilder& task, const std::vector<Partial>& parts, std::int64_t rows,
            std::int64_t cols) const;

  void Draw(TaskBuilder& task, const Parameter& parameter, const Range& outputs,
            const Range& inputs);
  void FinishForward(TaskBuilder& task, int z, int layer, const Range& rows, const Range& outputs);
  void FinishLoss(TaskBuilder& task, int logits, const Range& rows);
  void FinishBackward(TaskBuilder& task, int d_inputs, int layer, const Range& rows,
                      const Range& inputs);
  void FinishUpdate(TaskBuilder& task, int gradient, const Parameter& parameter,
                    const Range& outputs, const Range& inputs);
  void BuildSplitUpdate(int layer, const TileRow& row, const Range& inputs,
                        const std::vector<Range>& batch);
  void Add(TaskBuilder&& task, TaskName name, int layer, const Range& rows, const Range& outputs,
           const Range& inputs, std::int64_t priority);

  // Earlier stages of a step first; among them what the critical path needs.
  std::int64_t ForwardPriority(int layer) const;
  std::int64_t BackwardPriority(int layer) const;
  std::int64_t UpdatePriority(int layer) const;

  const Model& model_;
  const Training& training_;
  const Plan& plan_;
  const Pass& pass_;
  PassKeys keys_;
  std::vector<PlannedTask> tasks_;
};

}  // namespace acan
