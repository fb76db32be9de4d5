// Graph: a model as operators over named values. Each node reads only values that precede it. The
// order of the nodes is part of the model, because it decides the order of additions.
//
// A graph is built by adding to it. Every addition is checked, so the shapes of a graph's nodes
// always match. Errors are acan::Error (usage); they name the node, the operand, its shape and what
// was expected. Only one thread at a time may change a graph; const calls are thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "acan/model/operator_table.h"
#include "acan/model/parameter.h"
#include "acan/model/shape.h"

namespace acan::model {

using ValueId = std::int32_t;
using NodeId = std::int32_t;
using ParameterIndex = std::int32_t;  // also the number that its initial values are drawn with
inline constexpr std::int32_t kNoValue = -1;
inline constexpr std::int32_t kNoNode = -1;

// Limits of a graph.
inline constexpr std::int64_t kMaxNodes = 1 << 20;
// Plans count rows and columns in 31 bits. A matrix of a task has at most kMaxMatrixAxis rows and
// columns (core/task_limits.h), so no plan exists for an operator that needs a longer axis at once.
inline constexpr std::int64_t kMaxRows = INT32_MAX;                  // of a value, for each sample
inline constexpr std::int64_t kMaxFeatures = INT32_MAX;              // of a value
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;  // of a value, for each sample
inline constexpr std::int64_t kMaxSide = 1 << 15;  // of images, windows and patches, in pixels

enum class InputRole : std::uint8_t {
  kNumbers,  // floats
  kTargets,  // floats that a loss compares its operand with
  kTokens,   // integers in [0, bound)
  kLabels,   // integers in [0, bound), or the ignored label
  kLengths,  // integers in [1, bound], one per sample
};

struct Input {
  std::string name;
  InputRole role = InputRole::kNumbers;
  std::int64_t bound = 0;  // integers only
  ValueId value = kNoValue;
};

enum class Source : std::uint8_t { kInput, kParameter, kNode };

struct Value {
  std::string name;
  Shape shape;
  Source source = Source::kInput;
  std::int32_t index = 0;   // of the input, the parameter or the node
  std::int32_t result = 0;  // which of the node's results
};

struct Node {
  std::string name;
  Operator op;
  std::vector<ValueId> operands;  // in the table's order; kNoValue where one is left out
  std::vector<ValueId> results;
  NodeId gradient_of = kNoNode;  // of a backward node: the forward node that it belongs to
};

// A value and the name of the output.
struct GraphOutput {
  std::string name;
  ValueId value = kNoValue;
};

// After each step the parameter (a statistic) gets the value.
struct Assignment {
  ParameterIndex parameter = 0;
  ValueId value = kNoValue;
};

struct Gradient {
  ValueId of = kNoValue;  // a parameter or an input
  ValueId value = kNoValue;
};

// A second name under which other tools' files may contain a parameter's tensor, for example
// "lm_head.weight", where the head is the token table. acan does not write it.
struct TiedName {
  std::string name;
  ParameterIndex parameter = 0;
};

// An operand of a node.
struct Use {
  NodeId node = kNoNode;
  std::int32_t operand = 0;
  friend auto operator<=>(const Use&, const Use&) = default;
};

class Graph {
 public:
  // `rows` is per sample. kLengths takes one row and one feature, other integers take one feature.
  ValueId AddInput(const std::string& name, InputRole role, std::int64_t rows,
                   std::int64_t features, std::int64_t bound = 0);
  ValueId AddParameter(Parameter parameter);
  // Trailing operands that are left out may be missing from `operands`. Returns the node's first
  // result; node(...).results has all of them.
  ValueId Add(const std::string& name, Operator op, std::vector<ValueId> operands);
  NodeId AddNode(const std::string& name, Operator op, std::vector<ValueId> operands,
                 NodeId gradient_of = kNoNode);

  // Output names are unique; one value may have several.
  void AddOutput(const std::string& name, ValueId value);
  // `value` is the first result of a loss operator, and may be added only once. The batch's loss is
  // the sum of all losses, each divided by its operator's divisor.
  void AddLoss(ValueId value);
  // At most one per parameter. The parameter has the role kStatistic and the value's shape.
  void AddAssignment(ParameterIndex parameter, ValueId value);
  // Records a gradient that WithGradients made. REQUIRES: equal shapes.
  void AddGradient(ValueId of, ValueId value);
  // Files have a count of training steps under this name (an I64 scalar):
  // "bn1.num_batches_tracked".
  void AddStepCounter(const std::string& name);
  // REQUIRES: `parameter` is the value of a parameter.
  void AddTiedName(const std::string& name, ValueId parameter);

  void SetFrozen(ParameterIndex parameter, bool frozen);
  void SetDecayed(ParameterIndex parameter, bool decayed);

  const std::vector<Value>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  const std::vector<ValueId>& losses() const { return losses_; }
  const std::vector<Assignment>& assignments() const { return assignments_; }
  const std::vector<Gradient>& gradients() const { return gradients_; }
  const std::vector<std::string>& step_counters() const { return step_counters_; }
  const std::vector<TiedName>& tied_names() const { return tied_names_; }

  // REQUIRES: the id belongs to this graph.
  const Value& value(ValueId id) const { return values_.at(static_cast<std::size_t>(id)); }
  const Node& node(NodeId id) const { return nodes_.at(static_cast<std::size_t>(id)); }
  const Parameter& parameter(ParameterIndex id) const {
    return parameters_.at(static_cast<std::size_t>(id));
  }
  ValueId ValueOf(ParameterIndex parameter) const {
    return parameter_values_.at(static_cast<std::size_t>(parameter));
  }
  // What the parameter gets after each step; kNoValue: nothing is assigned to it.
  ValueId AssignedTo(ParameterIndex parameter) const {
    return assigned_.at(static_cast<std::size_t>(parameter));
  }

 private:
  ValueId AddValue(const std::string& name, const Shape& shape, Source source, std::int32_t index,
                   std::int32_t result);

  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<Parameter> parameters_;
  std::vector<ValueId> parameter_values_;
  std::vector<Input> inputs_;
  std::vector<GraphOutput> outputs_;
  std::vector<ValueId> losses_;
  std::vector<Assignment> assignments_;
  std::vector<ValueId> assigned_;  // by parameter; kNoValue: nothing
  std::vector<Gradient> gradients_;
  std::vector<std::string> step_counters_;
  std::vector<TiedName> tied_names_;
  std::unordered_set<std::string> names_;  // of values
};

// Checks what additions alone cannot: that there is a loss or an output; that every node, parameter
// and input serves an output, a loss, an assignment or a gradient; and that no two tensors of the
// model's files and snapshots have the same name. Throws Error (usage) that names the unused item
// or the duplicate name.
void Validate(const Graph& graph);

// The graph without its outputs and without the nodes that serve only these. It has the same inputs
// and parameters, also where nothing reads them any more, and the other nodes in the same order.
Graph WithoutOutputs(const Graph& graph);

// Whether a node has dropout, so that it computes from the number of the step, too.
bool HasDropout(const Graph& graph);

// The uses of each value, ascending, indexed by ValueId.
std::vector<std::vector<Use>> UsesOf(const Graph& graph);

// For an input whose rows are pixels: the image's size, as declared by the first operator that
// reads it as an image, directly or after operators that keep its rows in place; nullopt if there
// is no such operator.
std::optional<Extent> ImageSizeOf(const Graph& graph, ValueId input);

// The number of elements of all parameters that are not statistics, frozen or not, as frameworks
// count parameters. Tied parameters count once.
std::int64_t ParameterCount(const Graph& graph);

// Freezes the parameters whose names match: '*' stands for any characters, or none. Running
// statistics are still updated, as in PyTorch. Throws Error (usage) for a pattern that matches
// nothing but statistics, or nothing at all.
void Freeze(Graph* graph, const std::vector<std::string>& patterns);

enum class DecayRule : std::uint8_t {
  kEverything,  // PyTorch's default
  kMatrices,    // matrices and embeddings, not biases and scales, as nanoGPT does
};
void SetDecay(Graph* graph, DecayRule rule);

// Every input, parameter, node and output, one per line. Equal graphs have equal dumps on every
// machine.
std::string Dump(const Graph& graph);

}  // namespace acan::model
