// Graphs: error messages, validation and dumps; the table of operators; the draws of dropout.
#include "acan/model/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "acan/model/operator_table.h"
#include "acan/model/presets.h"
#include "reference.h"
#include "small_graph.h"

namespace acan::model {
namespace {

using testing::HasSubstr;

TEST(Graph, ErrorsNameTheNodeTheOperandItsShapeAndWhatWasExpected) {
  Small s;
  const ValueId wide = s.graph.AddParameter(MatrixParameter("wide", 4, 9, Constant{}));
  EXPECT_EQ(
      s.Error(Linear{}, {s.x, wide}),
      "node 'n' (linear): operand 'weight' is 'wide' of shape [4, 9]; expected 8 features, as "
      "operand 'x' has 8 features");
  EXPECT_EQ(s.Error(Linear{}, {s.x}), "node 'n' (linear): operand 'weight' is missing");
  EXPECT_EQ(s.Error(Linear{}, {s.ids, s.weight}),
            "node 'n' (linear): operand 'x' is 'ids' of shape integers [samples x 6, 1]; expected "
            "floats with rows for each sample");
  EXPECT_EQ(s.Error(Linear{}, {s.x, s.weight, s.weight}),
            "node 'n' (linear): operand 'bias' is 'w' of shape [4, 8]; expected one row of floats "
            "that all samples share");
  EXPECT_EQ(s.Error(Add{}, {s.x, s.bias}),
            "node 'n' (add): operand 'b' is 'b' of shape [1, 4]; expected [samples x 6, 8], the "
            "shape of operand 'a'");
  EXPECT_EQ(s.Error(Add{}, {s.x, s.x, s.x}),
            "node 'n' (add): it has 3 operands, but takes 2 at most");
  EXPECT_EQ(s.Error(Add{}, {s.x, 99}),
            "node 'n' (add): its operands include value 99, but the graph has 5 values so far");
}

TEST(Graph, ErrorsNameTheAttribute) {
  Small s;
  Attention attention;
  attention.heads = 3;
  attention.key_value_heads = 3;
  EXPECT_EQ(s.Error(attention, {s.x, s.x, s.x}),
            "node 'n' (attention): heads is 3, but must be a divisor of the 8 features of 'q'");
  attention.heads = 4;
  EXPECT_EQ(s.Error(attention, {s.x, s.x, s.x}),
            "node 'n' (attention): key_value_heads is 3, but must be a divisor of the 4 heads");
  attention.key_value_heads = 2;
  EXPECT_EQ(s.Error(attention, {s.x, s.x, s.x}),
            "node 'n' (attention): operand 'k' is 'x' of shape [samples x 6, 8]; expected 4 "
            "features, as 2 key-value heads have 2 features each");
  EXPECT_EQ(s.Error(Dropout{1.0f}, {s.x}),
            "node 'n' (dropout): rate is 1, but must be at least 0 and below 1");
  EXPECT_EQ(
      s.Error(Slice{SliceAxis::kPositions, 2, 7}, {s.x}),
      "node 'n' (slice): [begin, end) is [2, 7), but must be a range that is not empty inside "
      "[0, 6)");
  EXPECT_EQ(s.Error(LearnedPositions{0, 5}, {s.weight}),
            "node 'n' (learned_positions): operand 'table' is 'w' of shape [4, 8]; expected 5 rows "
            "from row 0 on, one for each position");
  EXPECT_EQ(
      s.Error(Rotary{3}, {s.x}),
      "node 'n' (rotary): head_size is 3, but must be even and a divisor of the 8 features of "
      "'x'");
  const Window window{{2, 2}, {3, 3}, {1, 1}, {0, 0}};
  EXPECT_EQ(
      s.Error(Pooling{PoolingKind::kAverage, window}, {s.x}),
      "node 'n' (pooling): kernel is 3x3, but must be no larger than the padded input of 2x2");
  EXPECT_EQ(s.Error(Scale{std::numeric_limits<float>::infinity()}, {s.x}),
            "node 'n' (scale): factor is inf, but must be finite");
  EXPECT_EQ(s.Error(Patches{{2, 3}, {2, 2}}, {s.x}),
            "node 'n' (patches): patch is 2x2, but must be a divisor of the image of 2x3 in both "
            "directions");
}

TEST(Graph, TakesEachOutputLossAndAssignmentOnce) {
  Small s;
  s.graph.AddOutput("out", s.x);
  EXPECT_EQ(ErrorOf([&] { s.graph.AddOutput("out", s.ids); }),
            "output 'out' is 'x' and cannot be 'ids' too; names must differ");
  const ValueId targets = s.graph.AddInput("t", InputRole::kTargets, 6, 8);
  const ValueId loss = s.graph.Add("loss", SquaredError{}, {s.x, targets});
  s.graph.AddLoss(loss);
  EXPECT_EQ(ErrorOf([&] { s.graph.AddLoss(loss); }),
            "loss: 'loss' is a loss already; each counts once");
  const ValueId mean =
      s.graph.AddParameter(VectorParameter("mean", Role::kStatistic, 4, Constant{}));
  EXPECT_EQ(s.graph.AssignedTo(2), kNoValue);
  s.graph.AddAssignment(2, mean);
  EXPECT_EQ(s.graph.AssignedTo(2), mean);
  EXPECT_EQ(s.graph.AssignedTo(0), kNoValue);
  EXPECT_EQ(ErrorOf([&] { s.graph.AddAssignment(2, s.bias); }),
            "parameter 'mean' is assigned 'mean' and cannot be assigned 'b' too");
}

// A failed operation leaves the graph as it was.
TEST(Graph, IsUnchangedByAMistake) {
  Small s;
  const std::string before = Dump(s.graph);
  s.Error(Linear{}, {s.x, s.bias});
  s.Error(Add{}, {s.x, s.bias});
  EXPECT_EQ(Dump(s.graph), before);
  s.graph.Add("n", Linear{}, {s.x, s.weight, s.bias});
}

TEST(Graph, RefusesEqualNamesAndSizesBeyondItsLimits) {
  Small s;
  EXPECT_EQ(ErrorOf([&] { s.graph.AddInput("w", InputRole::kNumbers, 1, 1); }),
            "graph: there are two values named 'w'; names must differ");
  EXPECT_THAT(ErrorOf([&] { s.graph.AddInput("big", InputRole::kNumbers, 1LL << 30, 1LL << 30); }),
              HasSubstr("value 'big' has the shape [samples x 1073741824, 1073741824]; rows and "
                        "features must be"));
  EXPECT_THAT(ErrorOf([&] { s.graph.AddInput("t", InputRole::kTokens, 4, 2, 10); }),
              HasSubstr("input 't' (tokens) has 4 rows, 2 features and the bound 10"));
  Parameter odd = MatrixParameter("odd", 2, 3, Constant{});
  odd.file_shape = {7};
  EXPECT_EQ(ErrorOf([&] { s.graph.AddParameter(odd); }),
            "parameter 'odd': its shape in files has 7 elements, but the parameter has 2 x 3");
  EXPECT_EQ(ErrorOf([&] { s.graph.AddLoss(s.x); }),
            "loss: 'x' of shape [samples x 6, 8] is not a loss; expected the first result of "
            "cross_entropy or squared_error");
  EXPECT_THAT(ErrorOf([&] { s.graph.AddAssignment(0, s.weight); }),
              HasSubstr("parameter 'w' (matrix, [4, 8]) cannot be assigned 'w'"));
}

TEST(Graph, ValidationNamesWhatServesNothing) {
  Small s;
  EXPECT_EQ(ErrorOf([&] { Validate(s.graph); }),
            "graph: it has neither an output nor a loss; add one");
  const ValueId y = s.graph.Add("y", Linear{}, {s.x, s.weight, s.bias});
  s.graph.AddOutput("y", y);
  EXPECT_EQ(ErrorOf([&] { Validate(s.graph); }),
            "graph: input 'ids' of shape integers [samples x 6, 1] serves no output and no loss; "
            "remove it or use it");
  const ValueId table = s.graph.AddParameter(MatrixParameter("table", 10, 3, Constant{}));
  s.graph.AddOutput("e", s.graph.Add("e", Embedding{}, {s.ids, table}));
  Validate(s.graph);
  s.graph.Add("dead", Scale{}, {y});
  EXPECT_EQ(ErrorOf([&] { Validate(s.graph); }),
            "node 'dead' (scale): none of its results serves an output or a loss; remove it or use "
            "it");
}

// No two parameters, optimizer states, step counters or tied names may have the same tensor name.
TEST(Graph, ValidationNamesWhatWouldBeOneTensorInFiles) {
  const auto error = [](const std::string& weight, const std::string& bias,
                        const std::string& tied = "head", const std::string& counter = "steps") {
    Graph graph;
    const ValueId x = graph.AddInput("x", InputRole::kNumbers, 1, 2);
    const ValueId w = graph.AddParameter(MatrixParameter(weight, 3, 2, Constant{}));
    const ValueId b = graph.AddParameter(VectorParameter(bias, Role::kBias, 3, Constant{}));
    graph.AddOutput("y", graph.Add("y", Linear{}, {x, w, b}));
    graph.AddTiedName(tied, w);
    graph.AddStepCounter(counter);
    return ErrorOf([&] { Validate(graph); });
  };
  EXPECT_EQ(error("w", "b"), "no error");
  EXPECT_EQ(error("w", "b.state0"), "no error");
  EXPECT_EQ(error("w", "w.state2"), "no error");
  EXPECT_EQ(error("w", "w.state0"),
            "graph: parameter 'w.state0' and the optimizer's state of parameter 'w' would both be "
            "'w.state0' in files of the model; rename one");
  EXPECT_THAT(error("b.state1", "b"), HasSubstr("the optimizer's state of parameter 'b'"));
  EXPECT_THAT(error("__metadata__", "b"),
              HasSubstr("parameter '__metadata__' and the header of the file"));
  EXPECT_THAT(error("w", "b", "b"), HasSubstr("a tied name of parameter 'w' and parameter 'b'"));
  EXPECT_THAT(error("w", "b", "w"), HasSubstr("a tied name of parameter 'w' and parameter 'w'"));
  EXPECT_THAT(error("w", "b", "b.state0"), HasSubstr("the optimizer's state of parameter 'b'"));
  EXPECT_THAT(error("w", "bn.num_batches_tracked", "head", "bn.num_batches_tracked"),
              HasSubstr("the step counter of a batch_norm and parameter 'bn.num_batches_tracked'"));
}

// A length may equal its bound, so a table that is indexed by lengths needs one more row.
TEST(Graph, LengthsThatAreRowsHaveARowForTheirBound) {
  Small s;
  const ValueId lengths = s.graph.AddInput("lengths", InputRole::kLengths, 1, 1, 4);
  const ValueId table = s.graph.AddParameter(MatrixParameter("table", 4, 8, Constant{}));
  const ValueId more = s.graph.AddParameter(MatrixParameter("more", 5, 8, Constant{}));
  EXPECT_EQ(s.Error(Embedding{}, {lengths, table}),
            "node 'n' (embedding): operand 'table' is 'table' of shape [4, 8]; expected at least 5 "
            "rows, as the bound of input 'lengths' is 4, and lengths may be their bound");
  const ValueId embedded = s.graph.Add("embedded", Embedding{}, {lengths, more});
  EXPECT_EQ(s.Error(CrossEntropy{}, {s.graph.Add("y", Linear{}, {embedded, s.weight}), lengths}),
            "node 'n' (cross_entropy): operand 'logits' is 'y' of shape [samples x 1, 4]; expected "
            "at least 5 features, as the bound of input 'lengths' is 4, and lengths may be their "
            "bound");
  const ValueId longest = s.graph.AddInput("longest", InputRole::kLengths, 1, 1, 6);
  const ValueId tokens = s.graph.AddInput("tokens", InputRole::kTokens, 1, 1, 6);
  EXPECT_THAT(
      s.Error(GlobalPooling{}, {s.x, tokens}),
      HasSubstr("operand 'lengths' is 'tokens' of shape integers [samples x 1, 1]; expected "
                "an input of the role \"lengths\""));
  EXPECT_EQ(s.Error(GlobalPooling{}, {s.x, longest}), "no error") << "it has six rows";
}

TEST(Graph, RotaryPositionsHaveAngles) {
  Small s;
  EXPECT_THAT(s.Error(Rotary{8, 1e-30f}, {s.x}),
              HasSubstr("operand 'x' is 'x' of shape [samples x 6, 8]; expected at most 1 rows"));
  const ValueId most = s.graph.AddInput("most", InputRole::kNumbers, 1 << 20, 8);
  const ValueId more = s.graph.AddInput("more", InputRole::kNumbers, (1 << 20) + 1, 8);
  EXPECT_THAT(s.Error(Rotary{8}, {more}), HasSubstr("expected at most 1048576 rows"));
  EXPECT_EQ(s.Error(Rotary{8}, {most}), "no error");
}

TEST(Graph, FreezesByPatternAndDecaysByRole) {
  MlpOptions options;
  options.layers = {2, 3, 4, 5};
  Graph graph = Mlp(options, Mode::kTraining);
  Freeze(&graph, {"*.0.*", "layers.2.bias"});
  std::vector<std::string> frozen;
  for (const Parameter& parameter : graph.parameters()) {
    if (parameter.frozen) frozen.push_back(parameter.name);
    EXPECT_TRUE(parameter.decayed);
  }
  EXPECT_THAT(frozen, testing::ElementsAre("layers.0.weight", "layers.0.bias", "layers.2.bias"));
  EXPECT_EQ(
      ErrorOf([&] { Freeze(&graph, {"layer.*"}); }),
      "train.freeze: no parameter's name matches 'layer.*'; the 6 parameters are 'layers.0.weight' "
      "to 'layers.2.bias'");
  Graph gpt = Gpt({}, Mode::kTraining);
  EXPECT_EQ(ErrorOf([&] { Freeze(&gpt, {"lm_head.weight"}); }),
            "train.freeze: no parameter's name matches 'lm_head.weight'; 'lm_head.weight' is the "
            "tensor of 'transformer.wte.weight'");
  Graph resnet = Resnet({}, Mode::kTraining);
  Freeze(&resnet, {"*"});
  for (const Parameter& parameter : resnet.parameters()) {
    EXPECT_EQ(parameter.frozen, parameter.role != Role::kStatistic) << parameter.name;
  }
  SetDecay(&graph, DecayRule::kMatrices);
  for (const Parameter& parameter : graph.parameters()) {
    EXPECT_EQ(parameter.decayed, parameter.role == Role::kMatrix) << parameter.name;
  }
}

// Attributes that come from a file may have any value.
TEST(Graph, RefusesAttributesThatWouldOverflow) {
  Small s;
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  const auto window = [](const Extent& input, const Extent& kernel, const Extent& padding) {
    return Window{input, kernel, {1, 1}, padding};
  };
  EXPECT_THAT(s.Error(Convolution{window({kHuge, kHuge}, {1, 1}, {0, 0})}, {s.x, s.weight}),
              HasSubstr("input is 9223372036854775807x9223372036854775807, but must be at least 1 "
                        "and at most 32768 in both directions"));
  EXPECT_THAT(s.Error(Convolution{window({2, 3}, {1, 1}, {0, kHuge})}, {s.x, s.weight}),
              HasSubstr("padding is 0x9223372036854775807"));
  EXPECT_THAT(s.Error(Patches{{kHuge, kHuge}, {1, 1}}, {s.x}), HasSubstr("input is"));
  EXPECT_THAT(s.Error(LearnedPositions{kHuge, kHuge}, {s.weight}),
              HasSubstr("first is 9223372036854775807, but must be a row of the table's 4"));
  EXPECT_THAT(s.Error(Slice{SliceAxis::kFeatures, kHuge - 1, kHuge}, {s.x}), HasSubstr("[begin"));
  EXPECT_THAT(s.Error(SliceGradient{SliceAxis::kFeatures, kHuge, kHuge}, {s.x}),
              HasSubstr("size is 9223372036854775807"));
  EXPECT_THAT(s.Error(Reshape{kHuge}, {s.x}), HasSubstr("positions is 9223372036854775807"));
  Attention attention;
  attention.heads = 8;
  attention.key_value_heads = -1;
  EXPECT_THAT(s.Error(attention, {s.x, s.x, s.x}), HasSubstr("key_value_heads is -1"));
}

TEST(Graph, RefusesStreamsOfDropoutBeyondTheirLimit) {
  Small s;
  EXPECT_EQ(s.Error(Dropout{0.5f, DropoutUnit::kElement, -1}, {s.x}),
            "node 'n' (dropout): the stream of dropout is -1, but must be at least 0 and below "
            "1048576");
}

TEST(OperatorTable, IsInTheOrderOfTheAlternatives) {
  const std::vector<Operator> all = [] {
    std::vector<Operator> operators;
    [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
      (operators.push_back(Operator(std::in_place_index<kIndex>)), ...);
    }
    (std::make_index_sequence<std::variant_size_v<Operator>>{});
    return operators;
  }();
  ASSERT_EQ(OperatorTable().size(), all.size());
  for (const Operator& op : all) {
    const std::string text = ToText(op);
    EXPECT_EQ(text.substr(0, text.find('(')), RowOf(op).name);
  }
}

// An axis that may be cut must be an axis of an operand or a result; one that is cut into parts
// must be an axis of each result.
TEST(OperatorTable, CutsRunAlongOperandsAndResults) {
  const auto runs = [](const Port& port, Axis axis) {
    return port.rows == axis || port.columns == axis ||
           // A range of positions consists of ranges of samples.
           (axis == Axis::kSamples && (port.rows == Axis::kQueries || port.rows == Axis::kKeys));
  };
  for (const GraphOperatorRow& row : OperatorTable()) {
    EXPECT_FALSE(row.cuts.empty()) << row.name;
    for (const Cut& cut : row.cuts) {
      const auto along = [&](const Port& port) { return runs(port, cut.axis); };
      EXPECT_TRUE(std::any_of(row.operands.begin(), row.operands.end(), along) ||
                  std::any_of(row.results.begin(), row.results.end(), along))
          << row.name << " " << ToText(cut.axis);
      if (cut.halving != Halving::kParts) continue;
      EXPECT_TRUE(std::all_of(row.results.begin(), row.results.end(), along))
          << row.name << " " << ToText(cut.axis);
    }
  }
}

TEST(Dropout, KeepsItsShareAndDrawsApartForEveryCounter) {
  constexpr std::uint64_t kElements = 100'000;
  constexpr float kRate = 0.3f;
  const auto kept = [&](std::uint64_t seed, std::int64_t step, std::int64_t stream) {
    std::vector<bool> keeps;
    for (std::uint64_t i = 0; i < kElements; ++i) {
      keeps.push_back(DropoutKeeps(seed, step, stream, i, kRate));
    }
    return keeps;
  };
  const std::vector<bool> first = kept(1, 0, 0);
  const auto share = static_cast<double>(std::count(first.begin(), first.end(), true)) / kElements;
  EXPECT_NEAR(share, 0.7, 0.01);
  for (const std::vector<bool>& other : {kept(2, 0, 0), kept(1, 1, 0), kept(1, 0, 1)}) {
    double equal = 0;
    for (std::size_t i = 0; i < kElements; ++i) equal += first[i] == other[i] ? 1 : 0;
    EXPECT_NEAR(equal / kElements, 0.7 * 0.7 + 0.3 * 0.3, 0.01);
  }
  EXPECT_TRUE(DropoutKeeps(1, 0, 0, 5, 0.0f));
}

}  // namespace
}  // namespace acan::model
