// Each operator's gradient, compared with central differences, for all kinds of shapes: one row,
// one feature, sizes around leaves of 64, lengths, one sample.
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "acan/model/gradients.h"
#include "gradient_check.h"

namespace acan::model {
namespace {

// Small sizes and sizes around the ends of leaves, each often.
std::int64_t Size(Random* random) {
  static const std::int64_t sizes[] = {1, 1, 2, 3, 5, 8, 17, 31, 63, 64, 65, 66};
  return sizes[Draw(random, 0, std::size(sizes) - 1)];
}

// A graph of one operator, whose loss compares its first result with targets.
struct Bench {
  Random* random;
  Graph graph;

  ValueId Numbers(const std::string& name, std::int64_t rows, std::int64_t features) {
    return graph.AddInput(name, InputRole::kNumbers, rows, features);
  }
  ValueId Matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
    return graph.AddParameter(MatrixParameter(name, rows, columns, Constant{}));
  }
  ValueId Vector(const std::string& name, Role role, std::int64_t columns) {
    return graph.AddParameter(VectorParameter(name, role, columns, Constant{}));
  }
  bool Coin() { return Draw(random, 0, 1) == 1; }
  void Finish(ValueId y) {
    const Shape shape = graph.value(y).shape;
    const ValueId targets =
        graph.AddInput("targets", InputRole::kTargets, shape.rows, shape.features);
    graph.AddLoss(graph.Add("loss", SquaredError{}, {y, targets}));
  }
};

Window RandomWindow(Random* random, bool pooling) {
  Window w;
  w.kernel = {Draw(random, 1, 3), Draw(random, 1, 3)};
  w.stride = {Draw(random, 1, 3), Draw(random, 1, 3)};
  w.padding = {Draw(random, 0, pooling ? w.kernel.height / 2 : 2),
               Draw(random, 0, pooling ? w.kernel.width / 2 : 2)};
  w.input = {w.kernel.height + Draw(random, 0, 4), w.kernel.width + Draw(random, 0, 4)};
  return w;
}

struct Case {
  const char* name;
  std::function<void(Bench*)> build;
};

void BuildAttention(Bench* b) {
  Attention op;
  op.mask = b->Coin() ? AttentionMask::kCausal : AttentionMask::kFull;
  op.key_value_heads = Draw(b->random, 1, 2);
  op.heads = op.key_value_heads * Draw(b->random, 1, 3);
  op.scale = 0.4f;
  op.dropout = b->Coin() ? 0.3f : 0.0f;
  op.dropout_stream = 5;
  const std::int64_t d = Draw(b->random, 1, 5);
  static const std::int64_t lengths[] = {1, 2, 7, 65};
  const std::int64_t t = lengths[Draw(b->random, 0, 3)];
  const ValueId q = b->Numbers("q", t, op.heads * d);
  const ValueId k = b->Numbers("k", t, op.key_value_heads * d);
  const ValueId v = b->Numbers("v", t, op.key_value_heads * d);
  const ValueId length =
      b->Coin() ? b->graph.AddInput("lengths", InputRole::kLengths, 1, 1, t) : kNoValue;
  b->Finish(b->graph.Add("y", op, {q, k, v, length}));
}

void BuildBatchNorm(Bench* b) {
  const std::int64_t channels = Draw(b->random, 1, 5);
  const std::int64_t positions = Draw(b->random, 2, 70);
  const ValueId x = b->Numbers("x", positions, channels);
  const ValueId scale = b->Vector("scale", Role::kScale, channels);
  const ValueId bias = b->Vector("bias", Role::kBias, channels);
  const NodeId norm = b->graph.AddNode("y", BatchNorm{}, {x, scale, bias});
  const ValueId running = b->Vector("running_var", Role::kStatistic, channels);
  const ValueId variance = b->graph.node(norm).results[2];
  const ValueId next = b->graph.Add("next", RunningAverage{0.1f, Correction::kUnbiased, positions},
                                    {running, variance});
  b->graph.AddAssignment(2, next);
  if (b->Coin()) b->graph.SetFrozen(0, true);
  if (b->Coin()) b->graph.SetFrozen(1, true);
  b->Finish(b->graph.node(norm).results[0]);
}

void BuildBatchNormInference(Bench* b) {
  const std::int64_t channels = Size(b->random);
  const ValueId x = b->Numbers("x", Draw(b->random, 1, 9), channels);
  const ValueId scale = b->Vector("scale", Role::kScale, channels);
  const ValueId bias = b->Vector("bias", Role::kBias, channels);
  const ValueId mean = b->Vector("mean", Role::kStatistic, channels);
  const ValueId variance = b->Vector("variance", Role::kStatistic, channels);
  if (b->Coin()) b->graph.SetFrozen(0, true);
  b->Finish(b->graph.Add("y", BatchNormInference{}, {x, scale, bias, mean, variance}));
}

void BuildConvolution(Bench* b) {
  Convolution op;
  op.window = RandomWindow(b->random, false);
  op.groups = Draw(b->random, 1, 3);
  const std::int64_t inputs = op.groups * Draw(b->random, 1, 3);
  const std::int64_t outputs = op.groups * Draw(b->random, 1, 3);
  const ValueId x = b->Numbers("x", op.window.input.area(), inputs);
  const ValueId weight = b->Matrix("weight", outputs, op.window.kernel.area() * inputs / op.groups);
  const ValueId bias = b->Coin() ? b->Vector("bias", Role::kBias, outputs) : kNoValue;
  b->Finish(b->graph.Add("y", op, {x, weight, bias}));
}

void BuildCrossEntropy(Bench* b) {
  const std::int64_t classes = 1 + Size(b->random);
  const std::int64_t rows = Size(b->random);
  const ValueId logits = b->Numbers("logits", rows, classes);
  const ValueId labels = b->graph.AddInput("labels", InputRole::kLabels, rows, 1, classes);
  const float smoothing = b->Coin() ? 0.1f : 0.0f;
  b->graph.AddLoss(b->graph.Add("loss", CrossEntropy{smoothing, -100}, {logits, labels}));
}

// Tied weights: the table is read three times. There are two losses.
void BuildTied(Bench* b) {
  const std::int64_t vocabulary = Draw(b->random, 2, 9), features = Draw(b->random, 1, 5);
  const std::int64_t t = Draw(b->random, 1, 6);
  const ValueId table = b->Matrix("table", vocabulary, features);
  const ValueId ids = b->graph.AddInput("ids", InputRole::kTokens, t, 1, vocabulary);
  const ValueId positions = b->graph.Add("positions", LearnedPositions{1, 1}, {table});
  const ValueId x = b->graph.Add("embedded", Embedding{}, {ids, table});
  const ValueId first = b->graph.Add("first", Slice{SliceAxis::kPositions, 0, 1}, {x});
  const ValueId sum = b->graph.Add("sum", Add{}, {first, positions});
  const ValueId logits = b->graph.Add("head", Linear{}, {sum, table});
  const ValueId labels = b->graph.AddInput("labels", InputRole::kLabels, 1, 1, vocabulary);
  b->graph.AddLoss(b->graph.Add("entropy", CrossEntropy{}, {logits, labels}));
  b->Finish(x);
}

// q, k and v are parts of one value; with a gap, they do not cover all of it.
void BuildSlices(Bench* b) {
  const SliceAxis axis = b->Coin() ? SliceAxis::kFeatures : SliceAxis::kPositions;
  const std::int64_t part = Draw(b->random, 1, 9), gap = Draw(b->random, 0, 2);
  const std::int64_t whole = 3 * part + gap, other = Size(b->random);
  const bool features = axis == SliceAxis::kFeatures;
  const ValueId x = b->Numbers("x", features ? other : whole, features ? whole : other);
  std::vector<ValueId> parts;
  for (const std::int64_t i : {2, 0, 1}) {
    const std::int64_t begin = i * part + (i == 2 ? gap : 0);
    parts.push_back(
        b->graph.Add("part" + std::to_string(i), Slice{axis, begin, begin + part}, {x}));
  }
  const ValueId product = b->graph.Add("product", Multiply{}, {parts[0], parts[1]});
  b->Finish(b->graph.Add("sum", Add{}, {product, parts[2]}));
}

void BuildConcat(Bench* b) {
  const bool positions = b->Coin();
  std::vector<ValueId> parts;
  const std::int64_t other = Size(b->random);
  for (int i = 0; i < 3; ++i) {
    const std::int64_t size = Draw(b->random, 1, 40);
    parts.push_back(
        b->Numbers("x" + std::to_string(i), positions ? size : other, positions ? other : size));
  }
  b->Finish(
      b->graph.Add("y", Concat{positions ? SliceAxis::kPositions : SliceAxis::kFeatures}, parts));
}

// An operator with one operand and no parameter.
std::function<void(Bench*)> Plain(const Operator& op) {
  return [op](Bench* b) {
    const ValueId x = b->Numbers("x", Size(b->random), Size(b->random));
    b->Finish(b->graph.Add("y", op, {x}));
  };
}

// An operator with one operand and parameter vectors that have one element per feature.
std::function<void(Bench*)> WithVectors(const Operator& op, std::vector<Role> roles) {
  return [op, roles](Bench* b) {
    const std::int64_t features = Size(b->random);
    std::vector<ValueId> operands{b->Numbers("x", Size(b->random), features)};
    for (const Role role : roles) {
      operands.push_back(b->Vector("v" + std::to_string(operands.size()), role, features));
    }
    b->Finish(b->graph.Add("y", op, operands));
  };
}

std::function<void(Bench*)> Pair(const Operator& op) {
  return [op](Bench* b) {
    const std::int64_t rows = Size(b->random), features = Size(b->random);
    const ValueId first = b->Numbers("x", rows, features);
    const ValueId second = b->Coin() ? first : b->Numbers("other", rows, features);
    b->Finish(b->graph.Add("y", op, {first, second}));
  };
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases{
      {"Linear",
       [](Bench* b) {
         const std::int64_t inputs = Size(b->random), outputs = Size(b->random);
         const ValueId x = b->Numbers("x", Size(b->random), inputs);
         const ValueId weight = b->Matrix("weight", outputs, inputs);
         const ValueId bias = b->Coin() ? b->Vector("bias", Role::kBias, outputs) : kNoValue;
         b->Finish(b->graph.Add("y", Linear{}, {x, weight, bias}));
       }},
      {"Embedding",
       [](Bench* b) {
         const std::int64_t vocabulary = Size(b->random);
         const std::int64_t t = Size(b->random);
         const ValueId ids = b->graph.AddInput("ids", InputRole::kTokens, t, 1, vocabulary);
         const ValueId table = b->Matrix("table", vocabulary, Size(b->random));
         b->Finish(b->graph.Add("y", Embedding{-1}, {ids, table}));
       }},
      {"LearnedPositions",
       [](Bench* b) {
         const std::int64_t first = Draw(b->random, 0, 2), rows = Size(b->random);
         const ValueId table = b->Matrix("table", first + rows + Draw(b->random, 0, 2), 3);
         b->Finish(b->graph.Add("y", LearnedPositions{first, rows}, {table}));
       }},
      {"Rotary",
       [](Bench* b) {
         const std::int64_t d = 2 * Draw(b->random, 1, 4);
         const ValueId x = b->Numbers("x", Size(b->random), d * Draw(b->random, 1, 3));
         const Rotation rotation = b->Coin() ? Rotation::kForward : Rotation::kBack;
         b->Finish(b->graph.Add("y", Rotary{d, 100.0f, rotation}, {x}));
       }},
      {"Attention", BuildAttention},
      {"LayerNorm", WithVectors(LayerNorm{}, {Role::kScale, Role::kBias})},
      {"LayerNormWithoutBias", WithVectors(LayerNorm{1e-2f}, {Role::kScale})},
      {"LayerNormAlone", WithVectors(LayerNorm{}, {})},
      {"RmsNorm", WithVectors(RmsNorm{}, {Role::kScale})},
      {"BatchNorm", BuildBatchNorm},
      {"BatchNormInference", BuildBatchNormInference},
      {"GroupNorm",
       [](Bench* b) {
         const std::int64_t groups = Draw(b->random, 1, 4);
         const std::int64_t channels = groups * Draw(b->random, 1, 4);
         const ValueId x = b->Numbers("x", Draw(b->random, 2, 66), channels);
         const ValueId scale = b->Vector("scale", Role::kScale, channels);
         const ValueId bias = b->Vector("bias", Role::kBias, channels);
         b->Finish(b->graph.Add("y", GroupNorm{groups}, {x, scale, bias}));
       }},
      {"Convolution", BuildConvolution},
      {"Pooling",
       [](Bench* b) {
         const Window window = RandomWindow(b->random, true);
         const ValueId x = b->Numbers("x", window.input.area(), Draw(b->random, 1, 3));
         const PoolingKind kind = b->Coin() ? PoolingKind::kMaximum : PoolingKind::kAverage;
         b->Finish(b->graph.Add("y", Pooling{kind, window}, {x}));
       }},
      {"GlobalPooling",
       [](Bench* b) {
         const std::int64_t t = Size(b->random);
         const ValueId x = b->Numbers("x", t, Draw(b->random, 1, 66));
         const ValueId lengths =
             b->Coin() ? b->graph.AddInput("lengths", InputRole::kLengths, 1, 1, t) : kNoValue;
         const PoolingKind kind = b->Coin() ? PoolingKind::kMaximum : PoolingKind::kAverage;
         b->Finish(b->graph.Add("y", GlobalPooling{kind}, {x, lengths}));
       }},
      {"Patches",
       [](Bench* b) {
         const Extent patch{Draw(b->random, 1, 3), Draw(b->random, 1, 3)};
         const Extent input{patch.height * Draw(b->random, 1, 3),
                            patch.width * Draw(b->random, 1, 3)};
         const ValueId x = b->Numbers("x", input.area(), Draw(b->random, 1, 3));
         b->Finish(b->graph.Add("y", Patches{input, patch}, {x}));
       }},
      {"Reshape",
       [](Bench* b) {
         const std::int64_t rows = Size(b->random), features = Size(b->random);
         const ValueId x = b->Numbers("x", rows, features);
         b->Finish(b->graph.Add("y", Reshape{features}, {x}));
       }},
      {"Slices", BuildSlices},
      {"Concat", BuildConcat},
      {"Add", Pair(Add{})},
      {"Multiply", Pair(Multiply{})},
      {"SwiGlu", Pair(SwiGlu{})},
      {"Scale", Plain(Scale{-1.5f})},
      {"ScaleColumns", WithVectors(ScaleColumns{}, {Role::kScale})},
      {"Relu", Plain(Activation{ActivationKind::kRelu})},
      {"ClippedRelu", Plain(Activation{ActivationKind::kClippedRelu, 0.7f})},
      {"Gelu", Plain(Activation{ActivationKind::kGelu})},
      {"GeluTanh", Plain(Activation{ActivationKind::kGeluTanh})},
      {"Silu", Plain(Activation{ActivationKind::kSilu})},
      {"Tanh", Plain(Activation{ActivationKind::kTanh})},
      {"Sigmoid", Plain(Activation{ActivationKind::kSigmoid})},
      {"Dropout", Plain(Dropout{0.4f, DropoutUnit::kElement, 9})},
      {"DropoutOfSamples", Plain(Dropout{0.4f, DropoutUnit::kSample, 2})},
      {"CrossEntropy", BuildCrossEntropy},
      {"Tied", BuildTied},
  };
  return cases;
}

class OperatorGradient : public testing::TestWithParam<Case> {};

TEST_P(OperatorGradient, IsThatOfCentralDifferences) {
  for (std::uint64_t seed = 1; seed <= 12 && !HasFailure(); ++seed) {
    Random random(seed);
    Bench bench{&random, {}};
    GetParam().build(&bench);
    SCOPED_TRACE("seed " + std::to_string(seed));
    ExpectGradientsAreRight(bench.graph, Draw(&random, 1, 3), &random);
  }
}

INSTANTIATE_TEST_SUITE_P(All, OperatorGradient, testing::ValuesIn(Cases()),
                         [](const auto& chosen) { return chosen.param.name; });

// Every operator that is added needs a case above, and so does every gradient operator.
TEST(OperatorGradients, CoverTheTable) {
  std::set<std::string> seen;
  for (const Case& one : Cases()) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      Random random(seed);
      Bench bench{&random, {}};
      one.build(&bench);
      std::vector<ValueId> also;
      for (const Input& input : bench.graph.inputs()) {
        if (input.role == InputRole::kNumbers) also.push_back(input.value);
      }
      const Graph graph = WithGradients(bench.graph, also);
      for (const Node& node : graph.nodes()) seen.emplace(RowOf(node.op).name);
    }
  }
  for (const GraphOperatorRow& row : OperatorTable()) {
    EXPECT_TRUE(seen.contains(std::string(row.name))) << row.name;
  }
}

}  // namespace
}  // namespace acan::model
