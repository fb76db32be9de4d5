// SegmentTask: one task of a segment, for one box of its rows: gathers what other segments made,
// computes the segment's nodes in their order, and puts what others read. A buffer whose value
// nobody reads any more serves the next value of its shape.
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
  // Part `part` of the segment's column_parts. `context` must outlive it.
  SegmentTask(const PassContext& context, int segment, const Box& box, int part = 0);
  PlannedTask Build() &&;

  // ---- for products by tiles: their first node is computed elsewhere ---------------------------
  // The buffer that has the part's columns of the segment's first result.
  void SetProduct(int buffer);
  // The segment's other nodes, and what others read.
  void Finish();
  PlannedTask Take(tuplespace::Key key, std::int64_t priority) &&;

  // ---- for the calls of the node at hand (operator_calls.h) ------------------------------------
  const PassContext& context() const { return context_; }
  // Of which the node is computed: the task's, or a part of it that sums have a part for.
  const Box& box() const { return box_; }
  const LoweredNode& node() const { return context_.graph.node(node_); }
  TaskBuilder& builder() { return builder_; }
  bool Has(std::size_t operand) const;
  View Operand(std::size_t operand);
  View Result(std::size_t result);
  // Columns of the value that the part has.
  Range OperandColumns(std::size_t operand) const;
  // Contents are undefined; gone after the node.
  View Scratch(std::int64_t rows, std::int64_t columns);
  std::int64_t RowsOf(std::size_t operand) const;  // in the box

 private:
  struct Held {
    int buffer = -1;
    Range columns;  // of the root
    bool is_made = false;
    std::vector<Range> filled = {};  // if it is made: columns that others made
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
  Box box_;                                   // of the calls at hand
  int node_ = -1;                             // at hand
  std::map<Place, Held> held_;                // values of samples
  std::map<int, std::vector<Place>> ending_;  // of held_, by the node that reads last
  std::map<int, View> whole_;                 // gathered parameters and tables, by value and column
  std::map<int, std::vector<Range>> made_;    // ranges of columns of roots
  struct Sum {
    int value;
    int buffer;
    Range rows;
    Range columns;
    Box box;  // over whose rows
  };
  std::vector<Sum> sums_;            // made
  std::map<int, int> last_readers_;  // of roots: the segment's last node that touches it
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<int>> spare_;  // buffers by shape
  std::vector<int> scratch_;
};

}  // namespace acan
