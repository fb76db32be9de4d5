// Gradient graphs: which nodes they have, in which order they add, and what has no gradient.
#include "acan/model/gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <variant>
#include <vector>

#include "acan/model/graph.h"
#include "acan/model/presets.h"
#include "small_graph.h"

namespace acan::model {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// `after`: the node that serves only an output comes last, not first.
Graph PerceptronWithOutput(bool apart, bool after) {
  Graph graph;
  const ValueId x = graph.AddInput("x", InputRole::kNumbers, 1, 4);
  const ValueId unread = apart ? graph.AddInput("y", InputRole::kNumbers, 1, 4) : kNoValue;
  const ValueId labels = graph.AddInput("labels", InputRole::kLabels, 1, 1, 3);
  Parameter frozen = MatrixParameter("frozen", 2, 4, Constant{});
  frozen.frozen = true;
  const ValueId of_output = graph.AddParameter(frozen);
  const ValueId weight = graph.AddParameter(MatrixParameter("weight", 3, 4, Constant{}));
  const auto add_apart = [&] {
    if (apart) graph.AddOutput("apart", graph.Add("apart", Linear{}, {unread, of_output}));
  };
  if (!after) add_apart();
  const ValueId logits = graph.Add("logits", Linear{}, {x, weight});
  if (apart) graph.AddOutput("logits", logits);
  graph.AddLoss(graph.Add("loss", CrossEntropy{}, {logits, labels}));
  if (after) add_apart();
  graph.AddTiedName("tied", weight);
  graph.AddStepCounter("steps");
  return WithGradients(graph);
}

TEST(WithoutOutputs, LeavesOutTheNodesThatServeOnlyThese) {
  for (const bool after : {false, true}) {
    const Graph kept = WithoutOutputs(PerceptronWithOutput(true, after));
    std::string expected = Dump(PerceptronWithOutput(false, after));
    const std::string labels = "input labels";
    expected.insert(expected.find(labels), "input y [samples x 1, 4]: numbers\n");
    EXPECT_EQ(Dump(kept), expected);
    EXPECT_EQ(kept.tied_names().size(), 1u);
    EXPECT_EQ(kept.ValueOf(kept.tied_names().front().parameter), kept.gradients().front().of);
  }
}

TEST(Gradients, OfAPerceptronAreTheOperatorsOfToday) {
  MlpOptions options;
  options.layers = {5, 4, 3};
  const Graph graph = WithGradients(Mlp(options, Mode::kTraining));
  EXPECT_EQ(Dump(graph),
            "input x [samples x 1, 5]: numbers\n"
            "input labels integers [samples x 1, 1]: labels, bound 3\n"
            "parameter layers.0.weight [4, 5]: matrix, uniform(-0.4472136, 0.4472136), file [4, "
            "5] same\n"
            "parameter layers.0.bias [1, 4]: bias, uniform(-0.4472136, 0.4472136), file [4] same\n"
            "parameter layers.1.weight [3, 4]: matrix, uniform(-0.5, 0.5), file [3, 4] same\n"
            "parameter layers.1.bias [1, 3]: bias, uniform(-0.5, 0.5), file [3] same\n"
            "node 0 layers.0: linear of x=x, weight=layers.0.weight, bias=layers.0.bias -> "
            "[samples x 1, 4]\n"
            "node 1 layers.0.activation: activation(kind=relu) of x=layers.0 -> [samples x 1, 4]\n"
            "node 2 layers.1: linear of x=layers.0.activation, weight=layers.1.weight, "
            "bias=layers.1.bias -> [samples x 1, 3]\n"
            "node 3 loss: cross_entropy(label_smoothing=0, ignored_label=-100, order=leaves) of "
            "logits=layers.1, labels=labels -> [samples x 1, 1], [samples x 1, 1]\n"
            "node 4 loss.gradient.logits: cross_entropy_gradient(label_smoothing=0, "
            "ignored_label=-100, order=leaves) of logits=layers.1, labels=labels -> "
            "[samples x 1, 3], gradient of node 3\n"
            "node 5 layers.1.gradient.weight: linear_weight_gradient of dy=loss.gradient.logits, "
            "x=layers.0.activation -> [3, 4], gradient of node 2\n"
            "node 6 layers.1.gradient.bias: column_sums of x=loss.gradient.logits -> [1, 3], "
            "gradient of node 2\n"
            "node 7 layers.1.gradient.x: linear_input_gradient of dy=loss.gradient.logits, "
            "weight=layers.1.weight -> [samples x 1, 4], gradient of node 2\n"
            "node 8 layers.0.activation.gradient.x: activation_gradient(kind=relu) of "
            "reads=layers.0.activation, dy=layers.1.gradient.x -> [samples x 1, 4], gradient of "
            "node 1\n"
            "node 9 layers.0.gradient.weight: linear_weight_gradient of "
            "dy=layers.0.activation.gradient.x, x=x -> [4, 5], gradient of node 0\n"
            "node 10 layers.0.gradient.bias: column_sums of x=layers.0.activation.gradient.x -> "
            "[1, 4], gradient of node 0\n"
            "output outputs = layers.1\n"
            "loss loss\n"
            "gradient of layers.0.weight = layers.0.gradient.weight\n"
            "gradient of layers.0.bias = layers.0.gradient.bias\n"
            "gradient of layers.1.weight = layers.1.gradient.weight\n"
            "gradient of layers.1.bias = layers.1.gradient.bias\n");
}

TEST(Gradients, ThatMeetAreAddedInAscendingOrderOfTheirConsumers) {
  Graph graph;
  const ValueId x = graph.AddInput("x", InputRole::kNumbers, 1, 2);
  const ValueId w = graph.AddParameter(MatrixParameter("w", 2, 2, Constant{}));
  const ValueId a = graph.Add("a", Linear{}, {x, w});
  const ValueId b = graph.Add("b", Linear{}, {a, w});
  const ValueId c = graph.Add("c", Linear{}, {b, w});
  const ValueId targets = graph.AddInput("t", InputRole::kTargets, 1, 2);
  graph.AddLoss(graph.Add("loss", SquaredError{}, {c, targets}));
  const Graph all = WithGradients(graph);
  ASSERT_EQ(all.gradients().size(), 1u);
  const Node& last = all.node(all.value(all.gradients()[0].value).index);
  const Node& first = all.node(all.value(last.operands[0]).index);
  EXPECT_EQ(all.value(last.operands[1]).name, "c.gradient.weight");
  EXPECT_EQ(all.value(first.operands[0]).name, "a.gradient.weight");
  EXPECT_EQ(all.value(first.operands[1]).name, "b.gradient.weight");
}

TEST(Gradients, OfATiedHeadAreTheEmbeddingsAndThenTheHeads) {
  GptOptions options;
  options.n_layer = 1;
  options.n_head = 1;
  options.n_embd = 4;
  options.block_size = 3;
  options.vocab_size = 5;
  const Graph graph = WithGradients(Gpt(options, Mode::kTraining));
  const Gradient tied = graph.gradients().front();
  ASSERT_EQ(graph.value(tied.of).name, "transformer.wte.weight");
  const Node& sum = graph.node(graph.value(tied.value).index);
  EXPECT_TRUE(std::holds_alternative<Add>(sum.op));
  EXPECT_EQ(graph.value(sum.operands[0]).name, "transformer.wte.gradient.table");
  EXPECT_EQ(graph.value(sum.operands[1]).name, "lm_head.gradient.weight");
}

TEST(Gradients, OfSlicesThatAreTheWholeAreOneConcat) {
  GptOptions options;
  options.n_layer = 1;
  options.n_head = 2;
  options.n_embd = 4;
  options.block_size = 3;
  options.vocab_size = 5;
  const Graph graph = WithGradients(Gpt(options, Mode::kTraining));
  int concats = 0;
  for (const Node& node : graph.nodes()) {
    EXPECT_FALSE(std::holds_alternative<SliceGradient>(node.op)) << node.name;
    if (!std::holds_alternative<Concat>(node.op)) continue;
    ++concats;
    ASSERT_EQ(node.operands.size(), 3u);
    const std::string of = "transformer.h.0.attn.gradient.qkv";
    EXPECT_EQ(graph.value(node.operands[0]).name, of);
    EXPECT_EQ(graph.value(node.operands[1]).name, of + ":dk");
    EXPECT_EQ(graph.value(node.operands[2]).name, of + ":dv");
  }
  EXPECT_EQ(concats, 1);
}

TEST(Gradients, LeaveOutWhatOnlyFrozenParametersNeed) {
  GptOptions options;
  options.n_layer = 2;
  options.n_head = 2;
  options.n_embd = 4;
  options.block_size = 3;
  options.vocab_size = 5;
  Graph graph = Gpt(options, Mode::kTraining);
  Freeze(&graph, {"transformer.w*", "transformer.h.0.*", "transformer.h.1.attn.*"});
  const Graph all = WithGradients(graph);
  std::set<std::string> trained;
  for (const Gradient& gradient : all.gradients()) {
    trained.insert(all.value(gradient.of).name);
  }
  EXPECT_THAT(trained, testing::ElementsAre(
                           "transformer.h.1.ln_1.bias", "transformer.h.1.ln_1.weight",
                           "transformer.h.1.ln_2.bias", "transformer.h.1.ln_2.weight",
                           "transformer.h.1.mlp.c_fc.bias", "transformer.h.1.mlp.c_fc.weight",
                           "transformer.h.1.mlp.c_proj.bias", "transformer.h.1.mlp.c_proj.weight",
                           "transformer.ln_f.bias", "transformer.ln_f.weight"));
  for (const Node& node : all.nodes()) {
    if (node.gradient_of == kNoNode) continue;
    const std::string& of = all.node(node.gradient_of).name;
    EXPECT_FALSE(of.starts_with("transformer.h.0.") || of.starts_with("transformer.w"))
        << node.name;
  }
  // The gradient passes through the frozen attention but stops after the norm before it.
  EXPECT_THAT(Dump(all), AllOf(HasSubstr("transformer.h.1.attn.c_attn.gradient.x"),
                               testing::Not(HasSubstr("c_attn.gradient.weight")),
                               testing::Not(HasSubstr("h.1.ln_1.gradient.x"))));
  Validate(all);
}

TEST(Gradients, SayWhatHasNone) {
  Small s;
  EXPECT_EQ(ErrorOf([&] { WithGradients(s.graph); }),
            "gradients: the graph has no loss; add one to train it");
  const ValueId y = s.graph.Add("y", Linear{}, {s.x, s.weight});
  const ValueId targets = s.graph.AddInput("t", InputRole::kTargets, 6, 4);
  s.graph.AddLoss(s.graph.Add("loss", SquaredError{}, {y, targets}));
  EXPECT_EQ(ErrorOf([&] { WithGradients(s.graph); }),
            "parameter 'b': the loss does not depend on it, so it has no gradient; freeze it "
            "(train.freeze), or leave it out");
  s.graph.SetFrozen(1, true);
  const Graph all = WithGradients(s.graph);
  EXPECT_EQ(ErrorOf([&] { WithGradients(all); }), "gradients: the graph has its gradients already");
  EXPECT_EQ(ErrorOf([&] { WithGradients(s.graph, {s.ids}); }),
            "gradients: 'ids' is not an input of floats, so it has no gradient");
}

TEST(Gradients, DoNotGoThroughStatistics) {
  Graph graph;
  const ValueId x = graph.AddInput("x", InputRole::kNumbers, 2, 3);
  const ValueId scale = graph.AddParameter(VectorParameter("s", Role::kScale, 3, Constant{1}));
  const ValueId bias = graph.AddParameter(VectorParameter("b", Role::kBias, 3, Constant{}));
  const Node norm = graph.node(graph.AddNode("norm", BatchNorm{}, {x, scale, bias}));
  const ValueId y = graph.Add("y", ScaleColumns{}, {norm.results[0], norm.results[1]});
  const ValueId targets = graph.AddInput("t", InputRole::kTargets, 2, 3);
  graph.AddLoss(graph.Add("loss", SquaredError{}, {y, targets}));
  EXPECT_EQ(ErrorOf([&] { WithGradients(graph); }),
            "node 'norm' (batch_norm): its result 'mean' has no gradient, but the loss depends on "
            "it");
}

}  // namespace
}  // namespace acan::model
