// SegmentTask: builds the task of a segment for one box of its rows. The task gathers the values
// that other segments made, computes the segment's nodes in order, and puts the values that others
// read. Once a value has no more readers, its buffer serves the next value of the same shape.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "acan/manager/task_builder.h"
#include "pass_context.h"

namespace acan {

class SegmentTask {
 public:
  // Builds part `part` of the segment's column_parts. `context` must outlive it.
  SegmentTask(const PassContext& context, int segment, const Box& box, int part = 0);
  PlannedTask Build() &&;

  // ---- for products by tiles, whose first node is computed elsewhere ----------------------------
  // The buffer holds the part's columns of the segment's first result.
  void SetProduct(int buffer);
  // Computes the segment's other nodes, and puts what others read.
  void Finish();
  PlannedTask Take(tuplespace::Key key, std::int64_t priority) &&;

  // ---- for the calls of the current node (operator_calls.h) ------------------------------------
  const PassContext& context() const { return context_; }
  // The box for which the node is computed: the task's, or the part of it for one part of a sum.
  const Box& box() const { return box_; }
  const LoweredNode& node() const { return context_.graph.node(node_); }
  TaskBuilder& builder() { return builder_; }
  bool Has(std::size_t operand) const;
  View Operand(std::size_t operand);
  // Rows of a weight, and the outputs of its product that they make.
  struct WeightRows {
    Range outputs;
    View weight;
  };
  // The operand of a product, in whole rows. A few tiles below each other are not copied together
  // if no other node of the segment reads them.
  std::vector<WeightRows> RowsOfWeight(std::size_t operand);
  View Result(std::size_t result);
  // The operand's columns that belong to this part.
  Range OperandColumns(std::size_t operand) const;
  // The contents are undefined. The buffer is released after the current node.
  View Scratch(std::int64_t rows, std::int64_t columns);
  std::int64_t RowsOf(std::size_t operand) const;  // in the box

 private:
  struct Held {
    int buffer = -1;
    Range columns;  // of the root value
    bool is_made = false;
    std::vector<Range> filled = {};  // if is_made: the columns that other segments made
  };
  using Place = std::pair<int, std::int64_t>;  // root, first column

  const Segment& segment() const { return context_.segments[static_cast<std::size_t>(segment_)]; }
  void FindLastReaders();
  void ComputeFrom(std::int64_t node);
  void Compute(int node);
  void ReleaseAfter(int node);
  Held& HeldAt(const Place& place);
  Held& Find(int value, const Range& columns);
  void FillFromOthers(int root, const Range& columns, Held* held);
  Box BoxOf(std::size_t operand) const;
  View GatherBeside(const Box& box, int root, const Range& columns);
  View GatherParameter(int value, const Range& columns);
  bool IsReadOnce(int value) const;
  View WholeSum(int value);
  View ResultOf(int value, const Range& columns);
  View SumOf(int value, const Range& columns);
  View ViewOf(const Held& held, const Range& columns, std::int64_t positions) const;
  int NewBuffer(std::int64_t rows, std::int64_t columns);
  void PutValues();
  void PutSums();

  const PassContext& context_;
  const int segment_;
  const Box whole_box_;
  const int part_;
  TaskBuilder builder_;
  Box box_;                                   // of the current calls
  int node_ = -1;                             // the current node
  std::map<Place, Held> held_;                // values of samples
  std::map<int, std::vector<Place>> ending_;  // of held_, by the last node that reads it
  std::map<int, View> whole_;                 // gathered parameters and tables, by value and column
  std::map<int, std::vector<Range>> made_;    // by root: the columns that this task made
  struct Sum {
    int value;
    int buffer;
    Range rows;
    Range columns;
    Box box;  // whose rows are summed
  };
  std::vector<Sum> sums_;            // that this task made
  std::map<int, int> last_readers_;  // by root: the last node of the segment that touches it
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<int>> spare_;  // buffers by shape
  std::vector<int> scratch_;
};

}  // namespace acan
