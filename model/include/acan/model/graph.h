// Graph: a model as operators over named values. Nodes are in an order in which each reads only
// what is there before it; the order is part of the model, as it decides the order of additions.
//
// A graph is built by adding to it, and every addition is checked, so a graph has no node whose
// shapes do not meet. Errors are acan::Error (usage); they name the node, the operand, its shape
// and what was expected. One thread at a time may change a graph; const calls are thread-safe.
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
using ParameterId = std::int32_t;  // also the number that its initial values are drawn with
inline constexpr std::int32_t kNoValue = -1;
inline constexpr std::int32_t kNoNode = -1;

// Limits of a graph.
inline constexpr std::int64_t kMaxNodes = 1 << 20;
// Plans count rows and columns in 31 bits. Where an operator needs all of them at once, a matrix of
// a task has at most kMaxMatrixAxis (core/task_limits.h): no plan has a larger one.
inline constexpr std::int64_t kMaxRows = INT32_MAX;                  // of a value, for each sample
inline constexpr std::int64_t kMaxFeatures = INT32_MAX;              // of a value
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;  // of a value, for each sample
inline constexpr std::int64_t kMaxSide = 1 << 15;  // of images, windows and patches, in pixels

enum class InputRole : std::uint8_t {
  kNumbers,  // floats
  kTargets,  // floats that a loss compares with
  kTokens,   // integers in [0, bound)
  kLabels,   // integers in [0, bound), or the ignored label
  kLengths,  // integers in [1, bound], one a sample
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

// A value under the name by which others ask for it.
struct GraphOutput {
  std::string name;
  ValueId value = kNoValue;
};

// After each step the parameter (a statistic) takes the value.
struct Assignment {
  ParameterId parameter = 0;
  ValueId value = kNoValue;
};

struct Gradient {
  ValueId of = kNoValue;  // a parameter or an input
  ValueId value = kNoValue;
};

// Files of other tools may have a parameter's tensor a second time, under this name:
// "lm_head.weight", where the head is the table of tokens. Files of ours do not.
struct TiedName {
  std::string name;
  ParameterId parameter = 0;
};

// An operand of a node.
struct Use {
  NodeId node = kNoNode;
  std::int32_t operand = 0;
  friend auto operator<=>(const Use&, const Use&) = default;
};

class Graph {
 public:
  // `rows` for each sample. kLengths takes one row and one feature, other integers one feature.
  ValueId AddInput(const std::string& name, InputRole role, std::int64_t rows,
                   std::int64_t features, std::int64_t bound = 0);
  ValueId AddParameter(Parameter parameter);
  // Operands that are left out at the end may be missing. Returns the node's first result; others
  // are node(...).results.
  ValueId Add(const std::string& name, Operator op, std::vector<ValueId> operands);
  NodeId AddNode(const std::string& name, Operator op, std::vector<ValueId> operands,
                 NodeId gradient_of = kNoNode);

  // Names of outputs differ; one value may have several.
  void AddOutput(const std::string& name, ValueId value);
  // `value` is the first result of a loss operator, and is added once. The batch's loss is the sum
  // of all of them, each over its operator's divisor.
  void AddLoss(ValueId value);
  // At most one for a parameter, whose role is kStatistic, and which has the value's shape.
  void AddAssignment(ParameterId parameter, ValueId value);
  // What WithGradients found. REQUIRES: equal shapes.
  void AddGradient(ValueId of, ValueId value);
  // Files count training steps under this name (an I64 scalar): "bn1.num_batches_tracked".
  void AddStepCounter(const std::string& name);
  // REQUIRES: `parameter` is the value of one.
  void AddTiedName(const std::string& name, ValueId parameter);

  void SetFrozen(ParameterId parameter, bool frozen);
  void SetDecayed(ParameterId parameter, bool decayed);

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

  // REQUIRES: the id is one of this graph's.
  const Value& value(ValueId id) const { return values_.at(static_cast<std::size_t>(id)); }
  const Node& node(NodeId id) const { return nodes_.at(static_cast<std::size_t>(id)); }
  const Parameter& parameter(ParameterId id) const {
    return parameters_.at(static_cast<std::size_t>(id));
  }
  ValueId ValueOf(ParameterId parameter) const {
    return parameter_values_.at(static_cast<std::size_t>(parameter));
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
  std::vector<Gradient> gradients_;
  std::vector<std::string> step_counters_;
  std::vector<TiedName> tied_names_;
  std::unordered_set<std::string> names_;  // of values
};

// What additions alone cannot check: there is a loss or an output; every node, parameter and input
// serves one of the outputs, losses, assignments and gradients; and no two tensors of the model's
// files and snapshots have one name. Throws Error (usage) that names what serves nothing, or what
// has the name of something else.
void Validate(const Graph& graph);

// Who reads each value, ascending. Indexed by ValueId.
std::vector<std::vector<Use>> UsesOf(const Graph& graph);

// Of an input whose rows are pixels: the image's size, as the first operator that reads it as an
// image has it. Nothing: none does.
std::optional<Extent> ImageSizeOf(const Graph& graph, ValueId input);

// Elements of all parameters that are no statistics, whether frozen or not: what a framework calls
// the number of parameters. Tied ones count once.
std::int64_t ParameterCount(const Graph& graph);

// Freezes the parameters whose names match: '*' stands for any characters, also none. Running
// statistics go on, as in PyTorch. Throws Error (usage) for a pattern that no other parameter
// matches.
void Freeze(Graph* graph, const std::vector<std::string>& patterns);

enum class DecayRule : std::uint8_t {
  kEverything,  // PyTorch's default
  kMatrices,    // matrices and embeddings, not biases and scales, as nanoGPT does
};
void SetDecay(Graph* graph, DecayRule rule);

// Every input, parameter, node and output, a line each. Equal graphs have equal dumps, on every
// machine.
std::string Dump(const Graph& graph);

}  // namespace acan::model
