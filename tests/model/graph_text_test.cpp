// Graph files: each preset's text gives the same graph when read, and every mistake is named.
#include "acan/model/graph_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "nlohmann/json.hpp"
#include "small_presets.h"

namespace acan::model {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Preset {
  std::string name;
  std::function<Graph(Mode)> make;
};
void PrintTo(const Preset& preset, std::ostream* out) {
  *out << preset.name;
}

std::vector<Preset> Presets() {
  GptOptions with_dropout = SmallGpt();
  with_dropout.dropout = 0.2f;
  LlamaOptions tied = SmallLlama();
  tied.tie_word_embeddings = true;
  tied.attention_dropout = 0.1f;
  ConvnextOptions convnext = SmallConvnext();
  convnext.stochastic_depth_prob = 0.3f;
  return {
      {"gpt", [with_dropout](Mode mode) { return Gpt(with_dropout, mode); }},
      {"llama", [](Mode mode) { return Llama(SmallLlama(), mode); }},
      {"llama_tied", [tied](Mode mode) { return Llama(tied, mode); }},
      {"bert_masked", [](Mode mode) { return Bert(SmallBert(BertTask::kMaskedLanguage), mode); }},
      {"bert_classes", [](Mode mode) { return Bert(SmallBert(BertTask::kClassification), mode); }},
      {"vit", [](Mode mode) { return Vit(SmallVit(), mode); }},
      {"resnet_batch",
       [](Mode mode) {
         return Resnet(
             SmallResnet(ResnetBlock::kBottleneck, ResnetStem::kImageNet, NormKind::kBatch), mode);
       }},
      {"resnet_group",
       [](Mode mode) {
         return Resnet(SmallResnet(ResnetBlock::kBasic, ResnetStem::kSmall, NormKind::kGroup),
                       mode);
       }},
      {"convnext", [convnext](Mode mode) { return Convnext(convnext, mode); }},
      {"mlp",
       [](Mode mode) {
         return Mlp(SmallMlp(ActivationKind::kClippedRelu, LossKind::kSquaredError), mode);
       }},
      {"mlp_with_cross_entropy",
       [](Mode mode) {
         return Mlp(SmallMlp(ActivationKind::kRelu, LossKind::kCrossEntropy), mode);
       }},
  };
}

class PresetText : public ::testing::TestWithParam<Preset> {};

TEST_P(PresetText, MakesTheSameGraphAgain) {
  const std::string text = WriteGraph(GetParam().make(Mode::kTraining));
  for (const Mode mode : {Mode::kTraining, Mode::kEvaluation}) {
    EXPECT_EQ(Dump(ReadGraph(text, "net.json", mode)), Dump(GetParam().make(mode)));
  }
  EXPECT_EQ(WriteGraph(ReadGraph(text, "net.json", Mode::kTraining)), text);
}

INSTANTIATE_TEST_SUITE_P(Presets, PresetText, ::testing::ValuesIn(Presets()),
                         [](const auto& of) { return of.param.name; });

// ---- mistakes ----------------------------------------------------------------------------------

// x[samples x 1, 4] -> hidden -> relu -> head -> cross entropy, written by hand.
json SmallFile() {
  return ParseJson(R"({
    "format": "acan-graph-1",
    "inputs": [{"name": "x", "role": "numbers", "features": 4},
               {"name": "labels", "role": "labels", "bound": 3}],
    "parameters": [
      {"name": "hidden.weight", "role": "matrix", "rows": 5, "columns": 4,
       "initial": {"uniform": [-0.5, 0.5]}},
      {"name": "head.weight", "role": "matrix", "rows": 3, "columns": 5,
       "initial": {"normal": [0, 0.1]}},
      {"name": "head.bias", "role": "bias", "columns": 3, "initial": {"constant": 0}}],
    "nodes": [
      {"name": "hidden", "operator": "linear", "inputs": ["x", "hidden.weight"]},
      {"name": "relu", "operator": "activation", "inputs": ["hidden"],
       "attributes": {"kind": "relu"}},
      {"name": "head", "operator": "linear", "inputs": ["relu", "head.weight", "head.bias"]},
      {"name": "loss", "operator": "cross_entropy", "inputs": ["head", "labels"]}],
    "outputs": {"logits": "head"},
    "loss": "loss"})");
}

TEST(GraphTextTest, AFileByHandIsAGraph) {
  const Graph graph = ReadGraph(JsonText(SmallFile()), "net.json", Mode::kTraining);
  EXPECT_EQ(graph.parameters().size(), 3u);
  EXPECT_EQ(graph.parameter(2).file_shape, std::vector<std::int64_t>{3});
  EXPECT_EQ(graph.value(graph.outputs().front().value).shape.features, 3);
}

// Their defaults are those of PyTorch: a stride of 1, and a slice from the beginning.
TEST(GraphTextTest, AConvolutionsStrideAndASlicesBeginHaveDefaults) {
  json file = SmallFile();
  file["nodes"][2]["operator"] = "convolution";
  file["nodes"][2]["attributes"] = {{"input", 1}, {"kernel", 1}};
  file["nodes"][4] = {
      {"name", "part"}, {"operator", "slice"}, {"inputs", {"relu"}}, {"attributes", {{"end", 2}}}};
  file["outputs"]["part"] = "part";
  const Graph without = ReadGraph(JsonText(file), "net.json", Mode::kTraining);
  file["nodes"][2]["attributes"]["stride"] = 1;
  file["nodes"][4]["attributes"]["begin"] = 0;
  EXPECT_EQ(Dump(without), Dump(ReadGraph(JsonText(file), "net.json", Mode::kTraining)));
}

// The labels of a batch are words of 32 bits.
TEST(GraphTextTest, TheIgnoredLabelMayBeTheLeastOf32Bits) {
  json file = SmallFile();
  file["nodes"][3]["attributes"]["ignored_label"] = std::numeric_limits<std::int32_t>::min();
  const Graph graph = ReadGraph(JsonText(file), "net.json", Mode::kTraining);
  EXPECT_THAT(Dump(graph), HasSubstr("ignored_label=-2147483648"));
}

// A range of a truncated normal needs a quarter of the normal.
TEST(GraphTextTest, RangesOfTruncatedNormals) {
  for (const char* range : {"[0, 0.02, -2, 2]", "[0, 1, -1, 1]", "[0, 1, 0, 1]", "[5, 1, 5, 9]",
                            "[0, 0.3, -0.1, 0.1]", "[0, 1e-30, -3e38, 3e38]"}) {
    json file = SmallFile();
    file["parameters"][0]["initial"] =
        ParseJson(std::string("{\"truncated_normal\": ") + range + "}");
    EXPECT_NO_THROW(ReadGraph(JsonText(file), "net.json", Mode::kTraining)) << range;
  }
}

std::string Refusal(const std::string& text) {
  try {
    ReadGraph(text, "net.json", Mode::kTraining);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    EXPECT_THAT(error.what(), StartsWith("net.json: "));
    return error.what();
  }
  ADD_FAILURE() << "taken: " << text;
  return "";
}

struct Mistake {
  const char* where;  // a pointer into the small file
  const char* value;  // the JSON that replaces it; null: it is removed
  std::vector<std::string> says;
};

const std::vector<Mistake>& Mistakes() {
  static const std::vector<Mistake> all = {
      {"/format", "\"acan-graph-2\"", {"'format'", "\"acan-graph-1\""}},
      {"/format", nullptr, {"'format' is missing"}},
      {"/layers", "[]", {"unknown key \"layers\"", "nodes"}},
      {"/inputs", "{}", {"'inputs' is an object, expected an array"}},
      {"/inputs/0", "3", {"input 0", "is 3, expected an object"}},
      {"/inputs/0/name", "\"\"", {"'name' is \"\""}},
      {"/inputs/0/name", nullptr, {"input 0: 'name' is missing"}},
      {"/parameters/0/name",
       R"("w\u0000b")",
       {R"(parameter 'w\x00b': 'name' is "w\u0000b", expected a name of 1 to 512 bytes without)"}},
      {"/inputs/0/role", "\"floats\"", {"input 'x'", "\"numbers\", \"targets\", \"tokens\""}},
      {"/inputs/0/bound", "3", {"input 'x'", "only integers have one"}},
      {"/inputs/0/features", "0", {"input 'x'", "'features' is 0"}},
      {"/inputs/0/features", "1e3", {"input 'x'", "'features'", "an integer"}},
      {"/inputs/0/features", "18446744073709551615", {"'features' is 18446744073709551615"}},
      {"/inputs/1/bound", nullptr, {"input 'labels': 'bound' is missing"}},
      {"/inputs/1/name", "\"x\"", {"two values named 'x'"}},
      {"/parameters/0/role", "\"weight\"", {"parameter 'hidden.weight'", "\"matrix\", \"bias\""}},
      {"/parameters/0/rows", "-1", {"parameter 'hidden.weight'", "'rows' is -1"}},
      {"/parameters/2/rows", "2", {"parameter 'head.bias'", "'rows' is 2", "1 for biases"}},
      {"/parameters/0/initial", "{\"normal\": 1}", {"parameter 'hidden.weight'", "'initial'"}},
      {"/parameters/0/initial", "{\"gauss\": [0, 1]}", {"\"gauss\"", "truncated_normal"}},
      {"/parameters/0/initial", "{\"normal\": [0, 1e39]}", {"'initial'", "float32"}},
      {"/parameters/0/initial", "{\"uniform\": [1, 0]}", {"'initial'"}},
      {"/parameters/0/initial", "{\"uniform\": [-3e38, 3e38]}", {"'initial'", "low is finite"}},
      {"/parameters/0/initial", "{\"truncated_normal\": [0, 0, -1, 1]}", {"'initial'", "above 0"}},
      {"/parameters/0/initial",
       "{\"truncated_normal\": [0, 1, 2, 4]}",
       {"parameter 'hidden.weight'", "only 2.3 % of a normal distribution with mean 0",
        "from 2 to 4; at least 25 % must be"}},
      {"/parameters/0/initial", "{\"truncated_normal\": [0, 1, 6, 7]}", {"only 9.9e-08 %"}},
      {"/parameters/0/initial", "{\"truncated_normal\": [1, 1, -1, 0]}", {"only 14 %"}},
      {"/parameters/0/file_shape", "[5, 5]", {"parameter 'hidden.weight'", "25 elements"}},
      {"/parameters/0/file_layout", "\"OIHW\"", {"'file_layout'", "\"convolution\""}},
      {"/parameters/0/file_layout", "\"convolution\"", {"'file_shape' is missing"}},
      {"/parameters/0/tied_names", "[3]", {"'tied_names' is 3"}},
      {"/parameters/0/tied_names", "[\"head.bias\"]", {"'head.bias' in files of the model"}},
      {"/parameters/0/shape", "[5, 4]", {"parameter 'hidden.weight'", "unknown key \"shape\""}},
      {"/parameters/0/columns",
       "6",
       {"node 'hidden' (linear)", "[5, 6]", "operand 'x' has 4 features"}},
      {"/nodes/0/operator", "\"dense\"", {"node 'hidden'", "'operator' is \"dense\"", "linear, "}},
      {"/nodes/0/operator", "\"linear_input_gradient\"", {"'operator'", "one of linear"}},
      {"/nodes/0/inputs",
       "[\"x\", \"weight\"]",
       {"node 'hidden'", "\"weight\", which is not an input"}},
      {"/nodes/0/inputs", "[\"relu\", \"hidden.weight\"]", {"node 'hidden'", "earlier node"}},
      {"/nodes/0/inputs", "[\"x\"]", {"node 'hidden' (linear)", "weight"}},
      {"/nodes/0/inputs", "\"x\"", {"node 'hidden'", "'inputs' is \"x\", expected an array"}},
      {"/nodes/0/attributes", "{\"bias\": true}", {"node 'hidden' (linear)", "\"bias\"", "none"}},
      {"/nodes/1/attributes/kind", "\"swish\"", {"node 'relu' (activation)", "\"silu\""}},
      {"/nodes/1/attributes/kind", "1", {"node 'relu'", "'kind' is 1"}},
      {"/nodes/1/name", "\"hidden\"", {"two values named 'hidden'"}},
      {"/nodes/3/inputs", "[\"head\", \"x\"]", {"node 'loss' (cross_entropy)"}},
      {"/nodes/3/attributes",
       "{\"order\": \"leaves\", \"ignored_label\": -1}",
       {"node 'loss' (cross_entropy)", "ignored_label", "every label is a class"}},
      {"/nodes/3/attributes",
       "{\"ignored_label\": -2147483649}",
       {"node 'loss' (cross_entropy)", "ignored_label is -2147483649",
        "must be from -2147483648 to -1"}},
      {"/nodes/3/attributes",
       "{\"ignored_label\": 0}",
       {"node 'loss' (cross_entropy)", "ignored_label is 0, but must be from"}},
      {"/nodes/4",
       R"({"name": "d", "operator": "dropout", "inputs": ["relu"]})",
       {"node 'd' (dropout): 'rate' is missing"}},
      {"/nodes/4",
       R"({"name": "d", "operator": "dropout", "inputs": ["relu"],
           "attributes": {"unit": "sample"}})",
       {"node 'd' (dropout): 'rate' is missing"}},
      {"/nodes/4",
       R"({"name": "p", "operator": "pooling", "inputs": ["relu"],
           "attributes": {"input": 1, "kernel": 1}})",
       {"node 'p' (pooling): 'stride' is missing"}},
      {"/nodes/4",
       R"({"name": "p", "operator": "pooling", "inputs": ["relu"],
           "attributes": {"input": 1, "stride": 1}})",
       {"node 'p' (pooling): 'kernel' is missing"}},
      {"/nodes/4",
       R"({"name": "p", "operator": "pooling", "inputs": ["relu"],
           "attributes": {"kernel": 1, "stride": 1}})",
       {"node 'p' (pooling): 'input' is missing"}},
      {"/nodes/4",
       R"({"name": "p", "operator": "patches", "inputs": ["relu"], "attributes": {"input": 1}})",
       {"node 'p' (patches): 'patch' is missing"}},
      {"/nodes/4",
       R"({"name": "p", "operator": "patches", "inputs": ["relu"], "attributes": {"patch": 1}})",
       {"node 'p' (patches): 'input' is missing"}},
      {"/nodes/4",
       R"({"name": "c", "operator": "convolution", "inputs": ["relu", "head.weight"],
           "attributes": {"input": 1}})",
       {"node 'c' (convolution): 'kernel' is missing"}},
      {"/nodes/4",
       R"({"name": "c", "operator": "convolution", "inputs": ["relu", "head.weight"],
           "attributes": {"kernel": 1}})",
       {"node 'c' (convolution): 'input' is missing"}},
      {"/nodes/4",
       R"({"name": "s", "operator": "slice", "inputs": ["relu"], "attributes": {"begin": 1}})",
       {"node 's' (slice): 'end' is missing"}},
      {"/nodes/4",
       R"({"name": "r", "operator": "rotary", "inputs": ["relu"]})",
       {"node 'r' (rotary): 'head_size' is missing"}},
      {"/nodes/4",
       R"({"name": "a", "operator": "attention", "inputs": ["relu", "relu", "relu"],
           "attributes": {"key_value_heads": 1}})",
       {"node 'a' (attention): 'heads' is missing"}},
      {"/nodes/4",
       R"({"name": "a", "operator": "attention", "inputs": ["relu", "relu", "relu"],
           "attributes": {"heads": 1}})",
       {"node 'a' (attention): 'key_value_heads' is missing"}},
      {"/outputs", "[]", {"'outputs'", "expected an object"}},
      {"/outputs/logits", "\"nothing\"", {"'outputs' names \"nothing\""}},
      {"/outputs/logits", "\"loss\"", {"output 'logits' is 'loss'", "a node that is not a loss"}},
      {"/outputs/logits", "\"x\"", {"output 'logits' is 'x'", "expected a node"}},
      {"/outputs/logits", "\"head.bias\"", {"output 'logits' is 'head.bias'", "expected a node"}},
      {"/nodes/4",
       R"({"name": "twice", "operator": "scale", "inputs": ["loss"]})",
       {"node 'twice': 'inputs' names \"loss\", which is a loss"}},
      {"/nodes/4",
       R"({"name": "other", "operator": "cross_entropy", "inputs": ["relu", "labels"]})",
       {"node 'other' (cross_entropy)", "second loss beside 'loss'"}},
      {"/nodes/4",
       R"({"name": "sum", "operator": "add", "inputs": ["head.weight", "head.weight"]})",
       {"node 'sum': reads parameters only", "add must have rows for each sample"}},
      {"/loss", "\"head\"", {"'head'", "is not a loss"}},
      {"/loss", "7", {"'loss' is 7, expected the name of a value"}},
      {"/inputs/2", R"({"name": "y", "role": "numbers"})", {"input 'y'", "serves no output"}},
  };
  return all;
}

// Of a node 'n' with the operator and the attributes.
struct AttributeMistake {
  const char* op;
  const char* attributes;
  const char* says;
};

TEST(GraphTextTest, AttributesHaveTheRangesOfTheirMessages) {
  const std::vector<AttributeMistake> all = {
      {"learned_positions", R"({"first": -1})", "'first' is -1, expected an integer from 0 to"},
      {"learned_positions", R"({"rows": 0})", "'rows' is 0, expected an integer from 1 to"},
      {"embedding", R"({"padding_id": -2})", "'padding_id' is -2, expected an integer from -1 to"},
      {"pooling", R"({"input": 0})", "'input' is 0, expected an integer from 1 to 32768"},
      {"pooling", R"({"input": [4, 0]})", "'input' is 0, expected an integer from 1 to 32768"},
      {"pooling", R"({"padding": -1})", "'padding' is -1, expected an integer from 0 to 32768"},
      {"dropout", R"({"rate": 0.999999999})",
       "'rate' is 0.999999999, expected at least 0 and below 1, and float32 rounds it to 1"},
      {"attention", R"({"dropout": 1.5})", "'dropout' is 1.5, expected at least 0 and below 1"},
      {"cross_entropy", R"({"label_smoothing": -0.1})",
       "'label_smoothing' is -0.1, expected at least 0 and below 1"}};
  for (const auto& [op, attributes, says] : all) {
    json file = SmallFile();
    file["nodes"].push_back({{"name", "n"},
                             {"operator", op},
                             {"inputs", {"relu"}},
                             {"attributes", ParseJson(attributes)}});
    EXPECT_THAT(Refusal(JsonText(file)),
                HasSubstr("net.json: node 'n' (" + std::string(op) + "): " + says));
  }
}

TEST(GraphTextTest, EveryMistakeIsNamedByFileAndPlace) {
  for (const Mistake& mistake : Mistakes()) {
    SCOPED_TRACE(std::string(mistake.where) + " = " +
                 (mistake.value == nullptr ? "nothing" : mistake.value));
    json file = SmallFile();
    const json::json_pointer where(mistake.where);
    if (mistake.value == nullptr) {
      file.at(where.parent_pointer()).erase(where.back());
    } else {
      file[where] = ParseJson(mistake.value);
    }
    const std::string said = Refusal(JsonText(file));
    for (const std::string& part : mistake.says) EXPECT_THAT(said, HasSubstr(part));
  }
}

TEST(GraphTextTest, HeadsThatDoNotDivideAreNamed) {
  json file = ParseJson(WriteGraph(Gpt(SmallGpt(), Mode::kTraining)));
  for (json& node : file["nodes"]) {
    if (node["operator"] == "attention") node["attributes"]["heads"] = 5;
  }
  EXPECT_THAT(Refusal(JsonText(file)), HasSubstr("node 'transformer.h.0.attn' (attention): heads"));
}

TEST(GraphTextTest, WhatIsNoJsonIsNamed) {
  EXPECT_THAT(Refusal(""), HasSubstr("is not valid JSON"));
  EXPECT_THAT(Refusal("{\"format\": \"acan-graph-1\", }"), HasSubstr("line 1, column 28"));
  EXPECT_THAT(Refusal("[]"), HasSubstr("is [], expected an object"));
  EXPECT_THAT(Refusal(std::string(100'000, '[')), HasSubstr("is not valid JSON"));
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  EXPECT_THAT(Refusal("{\"format\": \"acan-graph-1\", \"inputs\": [" + deep + "]}"),
              HasSubstr("input 0: is an array, expected an object"));
}

// JSON readers differ in which of the two they use.
TEST(GraphTextTest, KeysThatAreThereTwiceAreNamed) {
  std::string text = JsonText(SmallFile());
  const std::string once = "\"features\":4";
  text.replace(text.find(once), once.size(), "\"features\":9," + once);
  EXPECT_THAT(Refusal(text), HasSubstr("has the key \"features\" more than once in one object"));
}

TEST(GraphTextTest, ParametersHaveALimitTogether) {
  json file = SmallFile();
  file["parameters"][0]["rows"] = 1 << 30;
  file["parameters"][0]["columns"] = 1 << 30;
  EXPECT_THAT(Refusal(JsonText(file)),
              HasSubstr("parameter 'hidden.weight': with it, the parameters have more than"));
}

TEST(GraphTextTest, OutputsHaveALimit) {
  json file = SmallFile();
  for (std::size_t i = 0; i < kMaxGraphOutputs; ++i) {
    file["outputs"]["a" + std::to_string(i)] = "head";
  }
  EXPECT_THAT(Refusal(JsonText(file)), HasSubstr("'outputs' has 1025 entries; the limit is 1024"));
}

TEST(GraphTextTest, BatchNormsTakeTheirStatistics) {
  json file = ParseJson(WriteGraph(Resnet(
      SmallResnet(ResnetBlock::kBasic, ResnetStem::kSmall, NormKind::kBatch), Mode::kTraining)));
  for (json& node : file["nodes"]) {
    if (node["name"] != "bn1") continue;
    json without = node["inputs"];
    without.erase(4);
    json changed = file;
    for (json& other : changed["nodes"]) {
      if (other["name"] == "bn1") other["inputs"] = without;
    }
    EXPECT_THAT(Refusal(JsonText(changed)), HasSubstr("node 'bn1': takes five inputs"));
  }
  const auto with_mean = [&](const char* mean) {
    json changed = file;
    for (json& node : changed["nodes"]) {
      if (node["name"] == "layer1.0.bn1") node["inputs"][3] = mean;
    }
    return JsonText(changed);
  };
  EXPECT_THAT(Refusal(with_mean("bn1.running_mean")),
              HasSubstr("node 'layer1.0.bn1': its input 'bn1.running_mean' is a statistic of node "
                        "'bn1' already; each needs a parameter of its own"));
  EXPECT_THAT(Refusal(with_mean("layer1.0.bn1.running_var")),
              HasSubstr("node 'layer1.0.bn1': its input 'layer1.0.bn1.running_var' is the running "
                        "mean of node 'layer1.0.bn1' already"));
  for (json& parameter : file["parameters"]) {
    if (parameter["name"] == "bn1.running_var") parameter["role"] = "scale";
  }
  EXPECT_THAT(Refusal(JsonText(file)),
              HasSubstr("node 'bn1': its input 'bn1.running_var' must be a parameter of the role "
                        "\"statistic\""));
}

// In evaluation mode, the dropout of an input is the input itself, which cannot be an output.
TEST(GraphFileTest, AnOutputThatIsAnInputInEvaluationIsRefusedInBoth) {
  const auto text = [](const std::string& output) {
    return JsonText(
        {{"format", "acan-graph-1"},
         {"inputs",
          {{{"name", "x"}, {"role", "numbers"}, {"features", 8}},
           {{"name", "labels"}, {"role", "labels"}, {"bound", 3}}}},
         {"parameters",
          {{{"name", "w"},
            {"role", "matrix"},
            {"rows", 3},
            {"columns", 8},
            {"initial", {{"constant", 0}}}}}},
         {"nodes",
          {{{"name", "once"},
            {"operator", "dropout"},
            {"inputs", {"x"}},
            {"attributes", {{"rate", 0.2}, {"unit", "element"}}}},
           {{"name", "twice"},
            {"operator", "dropout"},
            {"inputs", {"once"}},
            {"attributes", {{"rate", 0.1}, {"unit", "sample"}}}},
           {{"name", "head"}, {"operator", "linear"}, {"inputs", {"twice", "w"}}},
           {{"name", "dropped"},
            {"operator", "dropout"},
            {"inputs", {"head"}},
            {"attributes", {{"rate", 0.1}, {"unit", "element"}}}},
           {{"name", "loss"}, {"operator", "cross_entropy"}, {"inputs", {"dropped", "labels"}}}}},
         {"outputs", {{"logits", output}}},
         {"loss", "loss"}},
        1);
  };
  for (const Mode mode : {Mode::kTraining, Mode::kEvaluation}) {
    EXPECT_NO_THROW(ReadGraph(text("dropped"), "net.json", mode));
    for (const std::string output : {"once", "twice"}) {
      try {
        ReadGraph(text(output), "net.json", mode);
        ADD_FAILURE() << output << " was accepted";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("net.json: output 'logits' is '" + output +
                                            "', a dropout that is the input 'x' itself"));
      }
    }
  }
}

}  // namespace
}  // namespace acan::model
