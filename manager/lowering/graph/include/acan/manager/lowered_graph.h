// LoweredGraph: a model's graph as calls see it. Data that several calls of an operator and its
// gradient share, such as the statistics of a norm, become values; parts of a value's columns
// become views of it; and the tables that the manager computes become operands.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "acan/core/range.h"
#include "acan/model/graph.h"

namespace acan {

enum class ValueKind : std::uint8_t {
  kInput,      // an input of the graph: the manager puts it for each pass
  kTable,      // the manager computes it: the angles of rotary positions
  kParameter,  // a parameter, in the version that the pass reads
  kRows,       // rows for each sample, made by a node
  kSum,        // a sum over all rows, in parts made by boxes
  kShared,     // computed from sums and parameters
};

struct LoweredValue {
  std::string_view name;  // that of the graph's value; for hidden values, that of the node
  ValueKind kind = ValueKind::kRows;
  std::int64_t rows = 0;  // per sample; for tables, parameters, sums and shared values, in total
  std::int64_t columns = 0;
  std::int32_t index = -1;  // of the graph's input, of the table, or of the parameter
  // The value is the columns [first_column, first_column + columns) of the root, often itself.
  int root = -1;
  std::int64_t first_column = 0;
  std::int32_t producer = -1;  // a node; -1: no node makes it

  bool IsOfSamples() const { return kind == ValueKind::kRows || kind == ValueKind::kInput; }
};

// The part of a graph's node that a lowered node computes. Batch norm needs its own sums over all
// rows, so it becomes three nodes.
enum class NodePart : std::uint8_t {
  kAll,
  kBatchSums,     // of each column
  kBatchSquares,  // of each column's squared differences from its mean
  kBatchNorm,     // of each row, from both sums
};

struct LoweredNode {
  const model::Node* node = nullptr;
  NodePart part = NodePart::kAll;
  std::vector<int> operands;  // those of the graph's node (-1: left out), then hidden operands
  std::vector<int> results;   // likewise
  bool is_view = false;       // its result is a part of another value, so nothing is computed
  bool is_shared = false;     // computed from sums, once for all rows, by those who read it
  bool is_backward = false;
};

// What the backward pass recomputes, with the same bits, instead of reading it from the forward
// pass.
enum class Recompute : std::uint8_t {
  kNothing,
  kElements,  // cheap nodes: activations, gates, norms, dropout, rotary positions
  // Also products and attention: everything except the values that bypass branches and what only
  // they need. For a model without branches, or with batch norms, this is kElements.
  kBranches,
};

struct RotaryTable {
  std::int64_t positions = 0;
  std::int64_t head_size = 0;
  double base = 0;
  friend bool operator==(const RotaryTable&, const RotaryTable&) = default;
};

class LoweredGraph {
 public:
  explicit LoweredGraph(std::shared_ptr<const model::Graph> graph,
                        Recompute recompute = Recompute::kNothing);

  const model::Graph& graph() const { return *graph_; }
  const std::vector<LoweredNode>& nodes() const { return nodes_; }
  const std::vector<LoweredValue>& values() const { return values_; }
  // Each table has two values: cosines, then sines.
  const std::vector<RotaryTable>& tables() const { return tables_; }
  const LoweredNode& node(int id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const LoweredValue& value(int id) const { return values_[static_cast<std::size_t>(id)]; }
  const LoweredValue& RootOf(int id) const { return value(value(id).root); }
  // The value of a parameter's gradient; -1: the parameter is not trained.
  int GradientOf(model::ParameterIndex parameter) const {
    return gradients_[static_cast<std::size_t>(parameter)];
  }
  // The sum from which the running average of a statistic is computed; -1: there is none.
  int SumOfStatistic(int value) const;
  // The parameter to whose gradient a sum or a shared value contributes; -1: none.
  std::int32_t ParameterOfSum(int value) const {
    return parameter_of_sum_[static_cast<std::size_t>(value)];
  }

 private:
  int AddValue(LoweredValue value);
  void AddNode(const model::Node& node);
  void AddBatchNorm(const model::Node& node);
  int AddPart(LoweredNode lowered);
  void AddHidden(LoweredNode* lowered);
  int TableOf(const RotaryTable& table);
  void ComputeAgain(Recompute recompute);
  void LeaveOutUnreadNorms();
  void MakeViews();
  void ViewSlice(LoweredNode* node);
  void ViewConcat(LoweredNode* node);
  void FindGradients();

  std::shared_ptr<const model::Graph> graph_;
  std::vector<LoweredNode> nodes_;
  std::vector<int> node_of_;          // by node of the graph: the last lowered node made for it
  std::vector<LoweredValue> values_;  // the graph's values, in order, then hidden ones
  std::vector<RotaryTable> tables_;
  std::vector<int> table_values_;  // by table: the value of its cosines
  std::vector<int> gradients_;
  std::vector<std::int32_t> parameter_of_sum_;
};

// The number of sums in a parameter's gradient; 0: the parameter is not trained.
std::int64_t SumsOfGradient(const LoweredGraph& graph, std::int32_t parameter);
// What the update of a parameter adds up over the batch: the sum of a running statistic, or else
// the gradient; -1: nothing.
int SumForUpdate(const LoweredGraph& graph, std::int32_t parameter);
// Whether the node adds up rows: a sum over the batch, or a loss.
bool ReducesRows(const LoweredGraph& graph, int node);

// Whether the node makes the gradient of learned positions. Boxes within samples make rows of it,
// and the last box also makes the rows that no position looks up.
bool IsPositionsGradient(const LoweredGraph& graph, int node);

// The maximum number of parts of its columns or heads in which calls can compute the node. 1: it
// cannot be cut.
std::int64_t ColumnUnits(const LoweredGraph& graph, int node);
// How a node is cut along its columns or heads.
struct ColumnParts {
  int count = 1;
  std::int64_t span = 0;  // columns of a part, of which the last may have fewer; 0: equal parts
};
// The columns of an operand or a result that belong to part `part`; of the value, not of its root.
Range ColumnsOf(const LoweredGraph& graph, int node, bool is_result, std::size_t port, int part,
                const ColumnParts& parts);

}  // namespace acan
