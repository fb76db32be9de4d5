// LoweredGraph: a model's graph as calls see it. What several calls of one operator and its
// gradient share becomes a value (the statistics of a norm), parts of a value's columns become
// views of it, and the tables that the manager makes become operands.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "acan/core/range.h"
#include "acan/model/graph.h"

namespace acan {

enum class ValueKind : std::uint8_t {
  kInput,      // of the graph: the manager puts it for each pass
  kTable,      // the manager computes it: the angles of rotary positions
  kParameter,  // of the version that the pass reads
  kRows,       // rows for each sample, made by a node
  kSum,        // over all rows: boxes make parts of it
  kShared,     // made of sums and parameters
};

struct LoweredValue {
  std::string_view name;  // of the graph's value; of hidden ones, of its node
  ValueKind kind = ValueKind::kRows;
  std::int64_t rows = 0;  // for each sample; of tables, parameters, sums and shared ones, all rows
  std::int64_t columns = 0;
  std::int32_t index = -1;  // of the graph's input, of the table, or of the parameter
  // The value whose columns [first_column, first_column + columns) it is; often itself.
  int root = -1;
  std::int64_t first_column = 0;
  std::int32_t producer = -1;  // a node; -1: none

  bool IsOfSamples() const { return kind == ValueKind::kRows || kind == ValueKind::kInput; }
};

// What of a graph's node a lowered one computes. Batch norm reads its own sums over all rows, so it
// is three.
enum class NodePart : std::uint8_t {
  kAll,
  kBatchSums,     // of each column
  kBatchSquares,  // of each column's differences to its mean
  kBatchNorm,     // of each row, from both
};

struct LoweredNode {
  const model::Node* node = nullptr;
  NodePart part = NodePart::kAll;
  std::vector<int> operands;  // those of the graph's node (-1: left out), then hidden ones
  std::vector<int> results;   // likewise
  bool is_view = false;       // its result is a part of another value: there is nothing to compute
  bool is_shared = false;     // computed of sums, once for all rows
  bool is_backward = false;
};

// What the backward pass computes again, to the same bits, in place of reading what the forward
// pass left for it.
enum class Recompute : std::uint8_t {
  kNothing,
  kElements,  // what costs little: activations, gates, norms, dropout, rotary positions
  // All but the values that go around branches, and what only they read: products and attention,
  // too. Of a model without branches, or with batch norms, as kElements.
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
  // Each has two values: cosines, then sines.
  const std::vector<RotaryTable>& tables() const { return tables_; }
  const LoweredNode& node(int id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const LoweredValue& value(int id) const { return values_[static_cast<std::size_t>(id)]; }
  const LoweredValue& RootOf(int id) const { return value(value(id).root); }
  // The value of the gradient of each parameter; -1: it is not trained.
  int GradientOf(model::ParameterId parameter) const {
    return gradients_[static_cast<std::size_t>(parameter)];
  }
  // The sum from which a running average of a statistic is made; -1: there is none.
  int SumOfStatistic(int value) const;
  // The parameter whose gradient a sum or a shared value is a part of; -1: none.
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
  void MakeViews();
  void ViewSlice(LoweredNode* node);
  void ViewConcat(LoweredNode* node);
  void FindGradients();

  std::shared_ptr<const model::Graph> graph_;
  std::vector<LoweredNode> nodes_;
  std::vector<int> node_of_;          // of each node of the graph: the last of its parts
  std::vector<LoweredValue> values_;  // the graph's, in its order, then hidden ones
  std::vector<RotaryTable> tables_;
  std::vector<int> table_values_;  // of each table, the value of its cosines
  std::vector<int> gradients_;
  std::vector<std::int32_t> parameter_of_sum_;
};

// How many sums a parameter's gradient is made of; 0: it is not trained.
std::int64_t SumsOfGradient(const LoweredGraph& graph, std::int32_t parameter);
// Whether the node adds up rows: sums over the batch, or a loss.
bool ReducesRows(const LoweredGraph& graph, int node);

// Whether the node makes the gradient of learned positions. Boxes within samples make rows of it,
// and the last one those that no position looks up.
bool IsPositionsGradient(const LoweredGraph& graph, int node);

// Whether the operator has calls that compute it on a part of its columns or heads; the number of
// units that it can be cut into at most. 1: it cannot be cut.
std::int64_t ColumnUnits(const LoweredGraph& graph, int node);
// How a node is cut along its columns or heads.
struct ColumnParts {
  int count = 1;
  std::int64_t span = 0;  // columns of a part, the last may have less; 0: equal parts
};
// The columns of an operand or a result of a node in part `part`; of the value, not of its root.
Range ColumnsOf(const LoweredGraph& graph, int node, bool is_result, std::size_t port, int part,
                const ColumnParts& parts);

}  // namespace acan
