// GraphBuilder: writes down the tasks of one pass, layer by layer. See graph.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "acan/manager/graph.h"
#include "acan/manager/tuple_names.h"
#include "draft.h"

namespace acan {

// The nodes of `level` in `range`, which is itself a node or starts and ends with nodes.
std::vector<Range> NodesWithin(const Range& range, std::int64_t block, int level);

class GraphBuilder {
 public:
  GraphBuilder(const Model& model, const Training& training, const Plan& plan, const Pass& pass);

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

  // Puts together [rows, features] of boundary `boundary` from the cells in the space.
  int Assemble(Draft& draft, const char* what, int boundary, const Range& rows,
               const Range& features) const;
  // Puts `buffer` = [rows, features] of the boundary into the space, cell by cell.
  void Disperse(Draft& draft, const char* what, int boundary, const Range& rows,
                const Range& features, int buffer) const;
  // Gathers partial sums of shape [shape_rows, shape_cols] over the reduced axis until few enough
  // are left for one task, putting tasks that add some up.
  template <class KeyOf>
  std::vector<Partial> Gather(std::vector<Partial> parts, std::int64_t shape_rows,
                              std::int64_t shape_cols, const KeyOf& key_of, TaskKind kind,
                              const char* name, std::int64_t priority, int layer, const Range& a,
                              const Range& b);
  int SumOf(Draft& draft, const std::vector<Partial>& parts, std::int64_t rows,
            std::int64_t cols) const;

  void FinishForward(Draft& draft, int z, int layer, const Range& rows, const Range& outputs);
  void FinishLoss(Draft& draft, int logits, const Range& rows);
  void FinishBackward(Draft& draft, int d_inputs, int layer, const Range& rows,
                      const Range& inputs);
  void FinishUpdate(Draft& draft, int gradient, int tensor, const Range& outputs,
                    const Range& inputs);
  void BuildSplitUpdate(int layer, const TileRow& row, const Range& inputs,
                        const std::vector<Range>& batch);
  void Add(Draft&& draft, const char* kind, int layer, const Range& rows, const Range& outputs,
           const Range& inputs, std::int64_t priority);

  // Earlier stages of a step first; among them what the critical path needs.
  std::int64_t ForwardPriority(int layer) const;
  std::int64_t BackwardPriority(int layer) const;
  std::int64_t UpdatePriority(int layer) const;

  const Model& model_;
  const Training& training_;
  const Plan& plan_;
  const Pass& pass_;
  Names names_;
  std::vector<PlannedTask> tasks_;
};

}  // namespace acan
