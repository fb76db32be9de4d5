// The config.json that other frameworks need beside a model's weights, written and read.
#include <gtest/gtest.h>

#include "acan/manager/job.h"
#include "acan/manager/model_config.h"
#include "acan/manager/training_id.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {
namespace {

Job JobWith(const std::string& model, const std::string& rest = "") {
  return ParseJob(
      "[model]\n" + model + "[data]\ntrain_inputs = \"x.npy\"\ntrain_labels = \"y.npy\"\n" + rest,
      "job.toml", "/jobs", {});
}

TEST(ModelConfigTest, TransformersLoadsWhatItHasAClassFor) {
  const std::string output = "[output]\nconfig = \"transformers\"\n";
  const std::string gpt = "kind = \"gpt\"\nn_layer = 1\nn_head = 2\nn_embd = 8\ndropout = 0.1\n";
  const Job job = JobWith(gpt, output);
  EXPECT_EQ(job.output_config, OutputConfig::kTransformers);
  EXPECT_EQ(JobToJson(ParseJob(JobToToml(job), "again", "/", {})).dump(), JobToJson(job).dump());
  EXPECT_EQ(TrainingId(job, "a", "b"), TrainingId(JobWith(gpt), "a", "b"));
  EXPECT_FALSE(JobToJson(JobWith(gpt)).contains("output"));
  const nlohmann::json config = TransformersConfig(job.model);
  EXPECT_EQ(config.at("architectures").at(0), "GPT2LMHeadModel");
  EXPECT_EQ(config.at("n_positions"), 1024);
  EXPECT_EQ(config.at("resid_pdrop").dump(), "0.1");
  const auto refused = [&](const std::string& model, const std::vector<std::string>& parts) {
    SCOPED_TRACE(model);
    ExpectError([&] { JobWith(model, output); }, parts);
  };
  refused("layers = [4, 3]\n",
          {"output.config = \"transformers\"", "transformers has no class", "kind \"mlp\""});
  refused(gpt + "bias = false\n", {"output.config", "always has biases", "model.bias = true"});
  refused(
      "kind = \"llama\"\nhidden_size = 10\nnum_attention_heads = 3\nnum_key_value_heads = 3\n"
      "head_dim = 6\n",
      {"output.config", "a multiple of model.num_attention_heads: 10 is not a multiple of 3"});
  refused("kind = \"llama\"\ninitializer_range = 2\n",
          {"output.config", "a model.initializer_range of at most 1, not 2"});
}

// In a job, -1 is no token. In a config.json it would be the last one.
TEST(ModelConfigTest, NoPaddingTokenIsNull) {
  const Job job = JobWith("kind = \"bert\"\ntask = \"masked_language\"\npad_token_id = -1\n");
  EXPECT_TRUE(TransformersConfig(job.model).at("pad_token_id").is_null());
  EXPECT_EQ(JobToJson(job).at("model").at("pad_token_id"), -1);
  EXPECT_EQ(JobToJson(JobFromJson(JobToJson(job), "receipt.json")).dump(), JobToJson(job).dump());
  ExpectError([] { JobWith("kind = \"bert\"\ntask = \"masked_language\"\npad_token_id = -2\n"); },
              {"model.pad_token_id", "must be at least -1 and at most 30521"});
}

TEST(ModelConfigTest, ConfigsOfEveryActivationAreRead) {
  const TestFolder folder;
  for (const char* activation : {"gelu", "gelu_tanh", "silu", "tanh", "relu", "sigmoid"}) {
    SCOPED_TRACE(activation);
    const Job job = JobWith(fmt::format(
        "kind = \"bert\"\ntask = \"masked_language\"\nhidden_act = \"{}\"\n", activation));
    const std::string path = folder.Write("config.json", TransformersConfig(job.model).dump());
    EXPECT_EQ(ReadBertConfig(path).hidden_act, std::get<model::BertOptions>(job.model).hidden_act);
  }
  const auto of = [&](const char* text) {
    return ReadBertConfig(folder.Write("config.json", text)).hidden_act;
  };
  EXPECT_EQ(of(R"({"hidden_act": "swish"})"), model::ActivationKind::kSilu);
  EXPECT_EQ(of(R"({"hidden_act": "gelu_pytorch_tanh"})"), model::ActivationKind::kGeluTanh);
  EXPECT_EQ(of(R"({"hidden_act": "gelu_fast"})"), model::ActivationKind::kGeluTanh);
  EXPECT_EQ(of(R"({"hidden_act": "gelu_python_tanh"})"), model::ActivationKind::kGeluTanh);
  EXPECT_EQ(of(R"({"hidden_act": "gelu_accurate"})"), model::ActivationKind::kGeluTanh);
  EXPECT_EQ(of(R"({"hidden_act": "gelu_python"})"), model::ActivationKind::kGelu);
  EXPECT_EQ(of(R"({"hidden_act": null, "is_decoder": null, "position_embedding_type": null})"),
            model::ActivationKind::kGelu);
  ExpectError([&] { of(R"({"hidden_act": "mish"})"); }, {"'hidden_act' is \"mish\"", "sigmoid"});
}

TEST(ModelConfigTest, PaddingTokensOfConfigsAreRead) {
  const TestFolder folder;
  const auto of = [&](const char* text) {
    return ReadBertConfig(folder.Write("config.json", text)).pad_token_id;
  };
  EXPECT_EQ(of("{}"), 0);
  EXPECT_EQ(of(R"({"pad_token_id": 3})"), 3);
  EXPECT_EQ(of(R"({"pad_token_id": null})"), -1);
  EXPECT_EQ(of(R"({"pad_token_id": -2, "vocab_size": 9})"), 7);
}

// After a fine-tuning, the end of a text and the names of the classes are those of the pretrained
// model.
TEST(ModelConfigTest, ConfigsKeepTheNamesOfThePretrainedModel) {
  const TestFolder folder;
  const std::string path =
      folder.Write("config.json",
                   R"({"eos_token_id": 50256, "n_head": 7, "id2label": {"0": "no", "1": "yes"},
                       "pad_token_id": 5})");
  const Job gpt = JobWith("kind = \"gpt\"\nn_layer = 1\nn_head = 2\nn_embd = 8\n");
  nlohmann::json config = TransformersConfig(gpt.model);
  TakeNamesOf(path, &config);
  EXPECT_EQ(config.at("eos_token_id"), 50256);
  EXPECT_TRUE(config.at("bos_token_id").is_null());
  EXPECT_EQ(config.at("n_head"), 2);
  EXPECT_EQ(config.at("pad_token_id"), 5);
  EXPECT_FALSE(config.contains("id2label"));
  for (const int labels : {2, 3}) {
    const Job bert = JobWith(
        fmt::format("kind = \"bert\"\ntask = \"classification\"\nnum_labels = {}\n", labels));
    nlohmann::json of_bert = TransformersConfig(bert.model);
    TakeNamesOf(path, &of_bert);
    EXPECT_EQ(of_bert.at("id2label").at("1"), labels == 2 ? "yes" : "LABEL_1");
    EXPECT_EQ(of_bert.at("pad_token_id"), 0);  // the job's
  }
  const nlohmann::json before = config;
  TakeNamesOf(folder.Path("none"), &config);
  TakeNamesOf(folder.Write("broken", "{"), &config);
  EXPECT_EQ(config, before);
}

// BertConfig has no such tokens of its own, but keeps those that a file gives it.
TEST(ModelConfigTest, ConfigsOfBertKeepTheTokensOfTheirFile) {
  const TestFolder folder;
  const Job bert = JobWith("kind = \"bert\"\ntask = \"masked_language\"\n");
  const nlohmann::json own = TransformersConfig(bert.model);
  const auto taken = [&](const char* text) {
    nlohmann::json config = own;
    TakeNamesOf(folder.Write("config.json", text), &config);
    return config;
  };
  const nlohmann::json config =
      taken(R"({"model_type": "bert", "bos_token_id": 1, "eos_token_id": [2, 3]})");
  EXPECT_EQ(config.value("bos_token_id", nlohmann::json()), 1);
  EXPECT_EQ(config.value("eos_token_id", nlohmann::json()).dump(), "[2,3]");
  EXPECT_EQ(taken(R"({"model_type": "bert"})"), own);
}

// A short config.json means what transformers' class makes of it.
TEST(ModelConfigTest, TokensThatAConfigLeavesOutAreThoseOfItsClass) {
  const TestFolder folder;
  const auto taken = [&](const std::string& keys, const char* text) {
    nlohmann::json config = TransformersConfig(JobWith(keys).model);
    TakeNamesOf(folder.Write("config.json", text), &config);
    return nlohmann::json::array({config.at("bos_token_id"), config.at("eos_token_id")});
  };
  const std::string llama = "kind = \"llama\"\n", gpt = "kind = \"gpt\"\n";
  EXPECT_EQ(taken(llama, R"({"model_type": "llama"})").dump(), "[1,2]");
  EXPECT_EQ(taken(llama, R"({"model_type": "llama", "eos_token_id": [5, 6]})").dump(), "[1,[5,6]]");
  EXPECT_EQ(taken(gpt, R"({"model_type": "gpt2"})").dump(), "[50256,50256]");
  EXPECT_EQ(taken(gpt, R"({"model_type": "gpt2", "bos_token_id": null})").dump(), "[null,50256]");
}

TEST(ModelConfigTest, DamagedFilesAreRefused) {
  const TestFolder folder;
  const std::string path = folder.Write("config.json", R"({"vocab_size": 3)");
  ExpectError([&] { ReadBertConfig(path); }, {path + ": is not a JSON object"});
}

// Printing such a value would need a stack frame for each level.
TEST(ModelConfigTest, DeepFilesAreRefused) {
  const TestFolder folder;
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  const std::string path = folder.Write("config.json", "{\"vocab_size\": " + deep + "}");
  ExpectError([&] { ReadBertConfig(path); }, {path + ": nests arrays and objects more than 16"});
}

}  // namespace
}  // namespace acan
