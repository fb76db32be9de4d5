// The table of operators: for each operator its name, its operands and results, and how its
// iteration space may be cut. Validation, dumps and planners read it; there is no other list of
// operators.
//
// To add an operator, add its struct to operators.h or gradient_operators.h, its alternative to
// Operator, its row here, its shapes (src/infer_*.cpp) and its gradient (src/gradient_rules.cpp).
// In the tests, add its definition to the reference and a case to the operators' gradients; they
// fail until both are there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "acan/model/gradient_operators.h"
#include "acan/model/operators.h"

namespace acan::model {

using Operator = std::variant<
    // forward
    Linear, Embedding, LearnedPositions, Rotary, Attention, LayerNorm, RmsNorm, BatchNorm,
    BatchNormInference, RunningAverage, GroupNorm, Convolution, Pooling, GlobalPooling, Patches,
    Reshape, Slice, Concat, Add, Multiply, Scale, ScaleColumns, Activation, SwiGlu, Dropout,
    CrossEntropy, SquaredError,
    // backward
    LinearInputGradient, LinearWeightGradient, ColumnSums, ColumnDots, EmbeddingGradient,
    LearnedPositionsGradient, AttentionGradient, LayerNormGradient, LayerNormScaleGradient,
    RmsNormGradient, RmsNormScaleGradient, BatchNormSums, BatchNormGradient,
    BatchNormInferenceGradient, GroupNormGradient, GroupNormScaleGradient, ConvolutionInputGradient,
    ConvolutionWeightGradient, PoolingGradient, GlobalPoolingGradient, PatchesGradient,
    SliceGradient, ActivationGradient, SwiGluGradient, CrossEntropyGradient, SquaredErrorGradient>;

// Axes of iteration spaces. A range of an axis selects the part of an operand given below.
enum class Axis : std::uint8_t {
  kWhole,    // no axis: all of it is read or made under any cut
  kSamples,  // all rows of a range of samples
  kRows,     // any range of rows
  kQueries,  // positions of each sample in the range of kSamples, as queries
  kKeys,     // positions of each sample in the range of kSamples, as keys
  kColumns,  // features that operands and results share
  kOutputs,  // features of the result of a linear operator or a convolution; rows of a table
  kInputs,   // features of the operand of a linear operator
  kHeads,    // heads; of attention key-value heads, each with its group of query heads
  kTaps,     // k = (ky, kx, input channel) of a convolution
};

// What the two halves of a cut axis make of the results that do not run along it. (Of results that
// do, each half makes its own part.) Both halves read operands that do not run along the axis
// whole.
//
// Sums over rows must not depend on how samples are cut. So a row group is g samples, where g is
// the largest power of two with g x positions <= block, at least 1. Inside a group the rows form
// leaves of `block` and the aligned tree (core/range.h), and the tree continues over the groups.
// With one position per sample this is the tree over the rows themselves.
enum class Halving : std::uint8_t {
  kParts,        // all results run along the axis
  kSums,         // partial sums over leaves of `block`, added by the aligned tree
  kRowSums,      // partial sums over rows, added in the order of the row groups
  kTriples,      // partial (K, sum, o) of attention over leaves of 64 keys, combined by the tree
  kMaxThenSums,  // each row's largest value, then its sum of exponentials by the tree
};

struct Cut {
  Axis axis;
  Halving halving;
  friend bool operator==(const Cut&, const Cut&) = default;
};

enum class PortKind : std::uint8_t {
  kFeatures,  // floats, rows for each sample
  kIntegers,  // integers, rows for each sample
  kLengths,   // integers, one row and one feature for each sample
  kMatrix,    // floats that all samples share
  kVector,    // the same, with one row
  kFloats,    // floats of either kind
};

enum class Presence : std::uint8_t {
  kRequired,
  kOptional,  // kNoValue where it is left out
  kRepeated,  // the last operand: once or more
};

// An operand or a result, and the axes along which its rows and columns run.
struct Port {
  std::string_view name;
  PortKind kind;
  Axis rows;
  Axis columns;
  Presence presence = Presence::kRequired;
};

// The table's row for one operator.
struct GraphOperatorRow {
  std::string_view name;
  std::vector<Port> operands;
  std::vector<Port> results;
  std::vector<Cut> cuts;  // an axis that is not listed cannot be cut
};

// Rows are in the order of Operator's alternatives. Thread-safe; the table is never destroyed.
const std::vector<GraphOperatorRow>& OperatorTable();
const GraphOperatorRow& RowOf(const Operator& op);

// "name" or "name(attribute=value, ...)". Two operators have equal texts if and only if they are
// equal.
std::string ToText(const Operator& op);

std::string_view ToText(Axis axis);
std::string_view ToText(Halving halving);

}  // namespace acan::model
