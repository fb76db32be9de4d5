// Presets: names, shapes and parameter counts of the models that they stand for, gradients of small
// ones, and error messages for invalid options.
#include "acan/model/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "acan/core/error.h"
#include "acan/model/gradients.h"
#include "gradient_check.h"
#include "small_presets.h"

namespace acan::model {
namespace {

using testing::HasSubstr;

const Parameter& Named(const Graph& graph, std::string_view name) {
  for (const Parameter& parameter : graph.parameters()) {
    if (parameter.name == name) return parameter;
  }
  throw std::runtime_error("no parameter '" + std::string(name) + "'");
}

// ---- counts, as the frameworks say them ----

TEST(Presets, HaveTheParameterCountsOfTheModelsTheyStandFor) {
  EXPECT_EQ(ParameterCount(Gpt({}, Mode::kTraining)), 124'439'808);
  LlamaOptions llama;  // Llama-2-7B
  llama.max_position_embeddings = 4096;
  EXPECT_EQ(ParameterCount(Llama(llama, Mode::kTraining)), 6'738'415'616);
  EXPECT_EQ(ParameterCount(Bert({}, Mode::kEvaluation)), 109'482'240);  // bert-base-uncased
  EXPECT_EQ(ParameterCount(Vit({}, Mode::kTraining)), 86'567'656);      // vit_b_16
  EXPECT_EQ(ParameterCount(Resnet({}, Mode::kTraining)), 11'689'512);   // resnet18
  ResnetOptions resnet50;
  resnet50.blocks = {3, 4, 6, 3};
  resnet50.block = ResnetBlock::kBottleneck;
  EXPECT_EQ(ParameterCount(Resnet(resnet50, Mode::kTraining)), 25'557'032);
  EXPECT_EQ(ParameterCount(Convnext({}, Mode::kTraining)), 28'589'128);  // convnext_tiny
}

// Grouped queries and tied embeddings: Llama-3.2-1B, and TinyLlama-1.1B.
TEST(Presets, CountGroupedQueriesAndTiedHeads) {
  LlamaOptions options;
  options.vocab_size = 128256;
  options.hidden_size = 2048;
  options.intermediate_size = 8192;
  options.num_hidden_layers = 16;
  options.num_attention_heads = 32;
  options.num_key_value_heads = 8;
  options.tie_word_embeddings = true;
  EXPECT_EQ(ParameterCount(Llama(options, Mode::kTraining)), 1'235'814'400);
  options.vocab_size = 32000;
  options.intermediate_size = 5632;
  options.num_hidden_layers = 22;
  options.num_key_value_heads = 4;
  options.tie_word_embeddings = false;
  EXPECT_EQ(ParameterCount(Llama(options, Mode::kTraining)), 1'100'048'384);
}

// ---- small ones of each kind ----

struct Kind {
  const char* name;
  std::function<Graph(Mode)> make;
};

std::vector<Kind> Kinds() {
  const auto resnet = [](ResnetBlock block, ResnetStem stem, NormKind norm) {
    return [=](Mode mode) { return Resnet(SmallResnet(block, stem, norm), mode); };
  };
  const auto bert = [](BertTask task) {
    return [=](Mode mode) { return Bert(SmallBert(task), mode); };
  };
  return {
      {"MlpRelu",
       [](Mode mode) {
         return Mlp(SmallMlp(ActivationKind::kRelu, LossKind::kCrossEntropy), mode);
       }},
      {"MlpGelu",
       [](Mode mode) {
         return Mlp(SmallMlp(ActivationKind::kGelu, LossKind::kSquaredError), mode);
       }},
      {"MlpIdentity",
       [](Mode mode) { return Mlp(SmallMlp(std::nullopt, LossKind::kSquaredError), mode); }},
      {"Gpt", [](Mode mode) { return Gpt(SmallGpt(), mode); }},
      {"GptWithoutBias",
       [](Mode mode) {
         GptOptions o = SmallGpt();
         o.bias = false;
         o.sequence_length = 4;
         o.activation = ActivationKind::kGelu;
         o.label_smoothing = 0.1f;
         return Gpt(o, mode);
       }},
      {"Llama", [](Mode mode) { return Llama(SmallLlama(), mode); }},
      {"LlamaTiedWithBias",
       [](Mode mode) {
         LlamaOptions o = SmallLlama();
         o.tie_word_embeddings = true;
         o.attention_bias = true;
         o.mlp_bias = true;
         o.head_dim = 2;
         o.attention_dropout = 0.1f;
         return Llama(o, mode);
       }},
      {"BertMaskedLanguage", bert(BertTask::kMaskedLanguage)},
      {"BertClassification", bert(BertTask::kClassification)},
      {"Vit", [](Mode mode) { return Vit(SmallVit(), mode); }},
      {"ResnetBasic", resnet(ResnetBlock::kBasic, ResnetStem::kImageNet, NormKind::kBatch)},
      {"ResnetBottleneck", resnet(ResnetBlock::kBottleneck, ResnetStem::kSmall, NormKind::kBatch)},
      {"ResnetGroupNorm", resnet(ResnetBlock::kBasic, ResnetStem::kSmall, NormKind::kGroup)},
      {"Convnext", [](Mode mode) { return Convnext(SmallConvnext(), mode); }},
  };
}

class Preset : public testing::TestWithParam<Kind> {};

TEST_P(Preset, HasTheGradientsOfCentralDifferences) {
  for (const std::int64_t samples : {1, 3}) {
    Random random(static_cast<std::uint64_t>(samples));
    CheckLimits limits;
    limits.elements = 5;
    limits.tolerance = 1e-5;
    ExpectGradientsAreRight(GetParam().make(Mode::kTraining), samples, &random, limits);
  }
}

TEST_P(Preset, IsWholeAndHasTheSameParametersInBothModes) {
  const Graph training = GetParam().make(Mode::kTraining);
  const Graph evaluation = GetParam().make(Mode::kEvaluation);
  Validate(training);
  Validate(evaluation);
  EXPECT_EQ(training.parameters(), evaluation.parameters());
  EXPECT_EQ(training.step_counters(), evaluation.step_counters());
  EXPECT_TRUE(evaluation.assignments().empty());
  for (const Node& node : evaluation.nodes()) {
    EXPECT_FALSE(std::holds_alternative<Dropout>(node.op)) << node.name;
    EXPECT_FALSE(std::holds_alternative<BatchNorm>(node.op)) << node.name;
    if (const auto* attention = std::get_if<Attention>(&node.op)) {
      EXPECT_EQ(attention->dropout, 0.0f);
    }
  }
}

TEST_P(Preset, IsTheSameEveryTime) {
  EXPECT_EQ(Dump(WithGradients(GetParam().make(Mode::kTraining))),
            Dump(WithGradients(GetParam().make(Mode::kTraining))));
}

// Training and evaluation do without outputs, and presets have no node that serves only these.
TEST_P(Preset, KeepsAllNodesWithoutItsOutputs) {
  for (const Graph& graph :
       {WithGradients(GetParam().make(Mode::kTraining)), GetParam().make(Mode::kEvaluation)}) {
    const Graph kept = WithoutOutputs(graph);
    EXPECT_TRUE(kept.outputs().empty());
    ASSERT_EQ(kept.values().size(), graph.values().size());
    for (std::size_t id = 0; id < kept.values().size(); ++id) {
      EXPECT_EQ(kept.values()[id].name, graph.values()[id].name);
    }
    std::string dump = Dump(graph);
    for (std::size_t at; (at = dump.find("\noutput ")) != std::string::npos;) {
      dump.erase(at, dump.find('\n', at + 1) - at);
    }
    EXPECT_EQ(Dump(kept), dump);
  }
}

// Two dropouts with the same stream would drop the same elements.
TEST_P(Preset, DrawsEveryDropoutFromAStreamOfItsOwn) {
  std::set<std::int64_t> streams;
  const Graph graph = GetParam().make(Mode::kTraining);
  for (const Node& node : graph.nodes()) {
    if (const auto* dropout = std::get_if<Dropout>(&node.op)) {
      EXPECT_TRUE(streams.insert(dropout->stream).second) << node.name;
    }
    const auto* attention = std::get_if<Attention>(&node.op);
    if (attention && attention->dropout > 0) {
      EXPECT_TRUE(streams.insert(attention->dropout_stream).second) << node.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Preset, testing::ValuesIn(Kinds()),
                         [](const auto& chosen) { return chosen.param.name; });

// ---- names and layouts ----

std::vector<std::string> Names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Parameter& parameter : graph.parameters()) names.push_back(parameter.name);
  return names;
}

// As the manager draws and writes them: a parameter's random stream is its index, and the bound is
// rounded to fp32.
TEST(Mlp, KeepsNamesOrderAndBoundsOfTheFirstJobs) {
  MlpOptions options;
  options.layers = {784, 512, 256, 10};
  const Graph graph = Mlp(options, Mode::kTraining);
  EXPECT_THAT(Names(graph),
              testing::ElementsAre("layers.0.weight", "layers.0.bias", "layers.1.weight",
                                   "layers.1.bias", "layers.2.weight", "layers.2.bias"));
  EXPECT_EQ(ParameterCount(graph), 535'818);
  for (std::size_t layer = 0; layer < 3; ++layer) {
    const float bound = 1.0f / std::sqrt(static_cast<float>(options.layers[layer]));
    for (const std::size_t place : {2 * layer, 2 * layer + 1}) {
      EXPECT_EQ(graph.parameters()[place].initial, Initial(Uniform{-bound, bound}));
    }
    EXPECT_EQ(graph.parameters()[2 * layer].file_shape,
              (std::vector<std::int64_t>{options.layers[layer + 1], options.layers[layer]}));
    EXPECT_EQ(graph.parameters()[2 * layer + 1].file_shape,
              (std::vector<std::int64_t>{options.layers[layer + 1]}));
  }
}

TEST(Gpt, HasTheNamesAndLayoutsOfGpt2) {
  GptOptions options = SmallGpt();
  options.n_layer = 1;
  const Graph graph = Gpt(options, Mode::kTraining);
  const std::string h = "transformer.h.0.";
  EXPECT_THAT(
      Names(graph),
      testing::ElementsAre("transformer.wte.weight", "transformer.wpe.weight", h + "ln_1.weight",
                           h + "ln_1.bias", h + "attn.c_attn.weight", h + "attn.c_attn.bias",
                           h + "attn.c_proj.weight", h + "attn.c_proj.bias", h + "ln_2.weight",
                           h + "ln_2.bias", h + "mlp.c_fc.weight", h + "mlp.c_fc.bias",
                           h + "mlp.c_proj.weight", h + "mlp.c_proj.bias",
                           "transformer.ln_f.weight", "transformer.ln_f.bias"));
  const Parameter& c_attn = Named(graph, h + "attn.c_attn.weight");
  EXPECT_EQ(c_attn.rows, 18);
  EXPECT_EQ(c_attn.columns, 6);
  EXPECT_EQ(c_attn.file_shape, (std::vector<std::int64_t>{6, 18}));
  EXPECT_EQ(c_attn.file_layout, FileLayout::kTransposed);
  EXPECT_EQ(c_attn.initial, Initial(Normal{0, 0.02f}));
  const auto branch = static_cast<float>(static_cast<double>(0.02f) / std::sqrt(2.0));
  EXPECT_EQ(Named(graph, h + "mlp.c_proj.weight").initial, Initial(Normal{0, branch}));
  EXPECT_EQ(Named(graph, "transformer.wte.weight").file_layout, FileLayout::kSame);
}

TEST(Llama, HasTheNamesOfLlamaForCausalLM) {
  LlamaOptions options = SmallLlama();
  options.num_hidden_layers = 1;
  const std::string l = "model.layers.0.";
  EXPECT_THAT(
      Names(Llama(options, Mode::kTraining)),
      testing::UnorderedElementsAre(
          "model.embed_tokens.weight", l + "self_attn.q_proj.weight", l + "self_attn.k_proj.weight",
          l + "self_attn.v_proj.weight", l + "self_attn.o_proj.weight", l + "mlp.gate_proj.weight",
          l + "mlp.up_proj.weight", l + "mlp.down_proj.weight", l + "input_layernorm.weight",
          l + "post_attention_layernorm.weight", "model.norm.weight", "lm_head.weight"));
}

TEST(Bert, HasTheNamesOfItsThreeClasses) {
  BertOptions options = SmallBert(BertTask::kEncoder);
  options.num_hidden_layers = 1;
  const std::string l = "encoder.layer.0.";
  std::vector<std::string> encoder{"embeddings.word_embeddings.weight",
                                   "embeddings.position_embeddings.weight",
                                   "embeddings.token_type_embeddings.weight"};
  for (const std::string& of :
       {std::string("embeddings.LayerNorm"), l + "attention.self.query", l + "attention.self.key",
        l + "attention.self.value", l + "attention.output.dense", l + "attention.output.LayerNorm",
        l + "intermediate.dense", l + "output.dense", l + "output.LayerNorm"}) {
    encoder.push_back(of + ".weight");
    encoder.push_back(of + ".bias");
  }
  const auto with = [&](const std::string& prefix, const std::vector<std::string>& more) {
    std::vector<std::string> names;
    for (const std::string& name : encoder) names.push_back(prefix + name);
    names.insert(names.end(), more.begin(), more.end());
    return names;
  };
  EXPECT_EQ(Names(Bert(options, Mode::kEvaluation)),
            with("", {"pooler.dense.weight", "pooler.dense.bias"}));
  options.add_pooling_layer = false;
  EXPECT_EQ(Names(Bert(options, Mode::kEvaluation)), with("", {}));
  options.add_pooling_layer = true;
  options.task = BertTask::kMaskedLanguage;
  EXPECT_EQ(Names(Bert(options, Mode::kTraining)),
            with("bert.",
                 {"cls.predictions.transform.dense.weight", "cls.predictions.transform.dense.bias",
                  "cls.predictions.transform.LayerNorm.weight",
                  "cls.predictions.transform.LayerNorm.bias", "cls.predictions.bias"}));
  options.task = BertTask::kClassification;
  EXPECT_EQ(Names(Bert(options, Mode::kTraining)),
            with("bert.", {"bert.pooler.dense.weight", "bert.pooler.dense.bias",
                           "classifier.weight", "classifier.bias"}));
}

TEST(Vit, HasTheNamesAndLayoutsOfTorchvision) {
  VitOptions options = SmallVit();
  options.num_layers = 1;
  const Graph graph = Vit(options, Mode::kTraining);
  const std::string l = "encoder.layers.encoder_layer_0.";
  EXPECT_THAT(Names(graph),
              testing::ElementsAre(
                  "class_token", "conv_proj.weight", "conv_proj.bias", "encoder.pos_embedding",
                  l + "ln_1.weight", l + "ln_1.bias", l + "self_attention.in_proj_weight",
                  l + "self_attention.in_proj_bias", l + "self_attention.out_proj.weight",
                  l + "self_attention.out_proj.bias", l + "ln_2.weight", l + "ln_2.bias",
                  l + "mlp.0.weight", l + "mlp.0.bias", l + "mlp.3.weight", l + "mlp.3.bias",
                  "encoder.ln.weight", "encoder.ln.bias", "heads.head.weight", "heads.head.bias"));
  EXPECT_EQ(Named(graph, "class_token").file_shape, (std::vector<std::int64_t>{1, 1, 6}));
  EXPECT_EQ(Named(graph, "encoder.pos_embedding").file_shape, (std::vector<std::int64_t>{1, 7, 6}));
  EXPECT_EQ(Named(graph, "conv_proj.weight").file_shape, (std::vector<std::int64_t>{6, 3, 2, 2}));
  EXPECT_EQ(Named(graph, "conv_proj.weight").file_layout, FileLayout::kConvolution);
}

TEST(Resnet, HasTheNamesOfTorchvision) {
  const Graph graph = Resnet({}, Mode::kTraining);
  const std::vector<std::string> names = Names(graph);
  // 62 parameters and 2 statistics for each of the 20 norms; torchvision counts steps in each.
  EXPECT_EQ(names.size(), 62u + 40u);
  EXPECT_EQ(graph.step_counters().size(), 20u);
  EXPECT_EQ(graph.assignments().size(), 40u);
  EXPECT_THAT(
      std::vector(names.begin(), names.begin() + 7),
      testing::ElementsAre("conv1.weight", "bn1.weight", "bn1.bias", "bn1.running_mean",
                           "bn1.running_var", "layer1.0.conv1.weight", "layer1.0.bn1.weight"));
  for (const char* name : {"layer2.0.downsample.0.weight", "layer2.0.downsample.1.running_var",
                           "layer4.1.bn2.bias", "fc.weight", "fc.bias"}) {
    EXPECT_THAT(names, testing::Contains(name));
  }
  EXPECT_THAT(names, testing::Not(testing::Contains(HasSubstr("layer1.0.downsample"))));
  EXPECT_EQ(Named(graph, "conv1.weight").file_shape, (std::vector<std::int64_t>{64, 3, 7, 7}));
  EXPECT_EQ(graph.step_counters().front(), "bn1.num_batches_tracked");
}

TEST(Convnext, HasTheNamesOfTorchvision) {
  const std::vector<std::string> names = Names(Convnext({}, Mode::kTraining));
  for (const char* name :
       {"features.0.0.weight", "features.0.1.bias", "features.1.0.layer_scale",
        "features.1.2.block.0.weight", "features.1.0.block.2.weight", "features.1.0.block.3.weight",
        "features.5.8.block.5.bias", "features.2.0.weight", "features.6.1.weight",
        "features.7.2.layer_scale", "classifier.0.weight", "classifier.2.bias"}) {
    EXPECT_THAT(names, testing::Contains(name));
  }
}

// ---- sentences ----

template <class Options, class Make, class Change>
std::string ErrorOf(Options options, const Make& make, const Change& change) {
  change(&options);
  try {
    make(options, Mode::kTraining);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "no error";
}

TEST(Presets, SayWhatIsWrongWithTheirOptions) {
  EXPECT_EQ(ErrorOf(GptOptions{}, Gpt, [](GptOptions* o) { o->n_head = 10; }),
            "model: n_head = 10 does not divide n_embd = 768; the next smaller one that does is 8");
  EXPECT_EQ(ErrorOf(GptOptions{}, Gpt, [](GptOptions* o) { o->sequence_length = 2048; }),
            "model: sequence_length = 2048 is more than block_size = 1024, and there are no "
            "positions beyond it; shorten the sequences or raise block_size");
  EXPECT_EQ(ErrorOf(GptOptions{}, Gpt, [](GptOptions* o) { o->n_layer = 0; }),
            "model: n_layer = 0 must be at least 1 and at most 10000");
  EXPECT_EQ(ErrorOf(GptOptions{}, Gpt, [](GptOptions* o) { o->dropout = 1; }),
            "model: dropout = 1 must be at least 0 and below 1");
  EXPECT_EQ(ErrorOf(LlamaOptions{}, Llama, [](LlamaOptions* o) { o->num_key_value_heads = 5; }),
            "model: num_key_value_heads = 5 does not divide num_attention_heads = 32; the next "
            "smaller one that does is 4");
  EXPECT_THAT(ErrorOf(LlamaOptions{}, Llama, [](LlamaOptions* o) { o->head_dim = 7; }),
              HasSubstr("model: head_dim = 7 must be even"));
  EXPECT_EQ(ErrorOf(BertOptions{}, Bert, [](BertOptions* o) { o->pad_token_id = 40000; }),
            "model: pad_token_id = 40000 must be at least -1 and at most 30521");
  EXPECT_EQ(
      ErrorOf(VitOptions{}, Vit, [](VitOptions* o) { o->patch_size = 15; }),
      "model: patch_size = 15 does not divide image_size (height) = 224; the next smaller one "
      "that divides image_size (height) and image_size (width) is 14");
  EXPECT_EQ(ErrorOf(VitOptions{}, Vit,
                    [](VitOptions* o) {
                      o->patch_size = 12;
                      o->image_size = {12, 21};
                    }),
            "model: patch_size = 12 does not divide image_size (width) = 21; the next smaller one "
            "that divides image_size (height) and image_size (width) is 3");
  EXPECT_EQ(ErrorOf(ResnetOptions{}, Resnet, [](ResnetOptions* o) { o->blocks.pop_back(); }),
            "model: widths has 4 entries and blocks 3; each stage has one of both, and there is at "
            "least one stage");
  EXPECT_EQ(
      ErrorOf(ResnetOptions{}, Resnet,
              [](ResnetOptions* o) {
                o->norm = NormKind::kGroup;
                o->norm_groups = 48;
              }),
      "model: norm_groups = 48 does not divide widths[0] = 64; the next smaller one that divides "
      "widths[0] and widths[1] and widths[2] and widths[3] is 32");
  EXPECT_EQ(ErrorOf(ConvnextOptions{}, Convnext,
                    [](ConvnextOptions* o) {
                      o->image_size = {16, 16};
                    }),
            "model: image_size = 16x16 is too small for 4 stages: before 'features.6.1' it is 1x1, "
            "and 2 pixels become one");
  EXPECT_EQ(ErrorOf(MlpOptions{}, Mlp, [](MlpOptions* o) { o->layers = {4}; }),
            "model: layers has 1 entries; it needs the inputs, any number of hidden sizes, and the "
            "outputs");
  EXPECT_EQ(ErrorOf(MlpOptions{}, Mlp,
                    [](MlpOptions* o) {
                      o->layers = {4, 1};
                    }),
            "model: layers ends with 1, but cross entropy needs at least 2 classes");
}

}  // namespace
}  // namespace acan::model
