// Keys for models other than perceptrons, and for the length and the rules of a training.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "acan/core/error.h"
#include "acan/core/parameter.h"
#include "acan/core/schedule.h"
#include "acan/manager/job.h"
#include "acan/manager/trained_model.h"
#include "acan/manager/training_id.h"
#include "fmt/format.h"
#include "job_model_cases.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {
namespace {

constexpr const char* kPerceptron = "[model]\nlayers = [4, 3]\n";

Job ParseTraining(const std::string& train, const std::vector<std::string>& overrides = {}) {
  return ParseJob(kPerceptron + std::string(kModelData) + "[train]\n" + train, "job.toml", "/jobs",
                  overrides);
}

void ExpectTrainingRefused(const std::string& train, const std::vector<std::string>& parts) {
  SCOPED_TRACE(train);
  ExpectError([&] { ParseTraining(train); }, parts);
}

std::size_t LinesIn(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(JobModelTest, EveryKeyOfEveryKindIsReadAndWritten) {
  ASSERT_EQ(ModelKindCases().size() + 2, std::size(kModelKinds));  // not mlp and graph
  for (const auto& [kind, model] : ModelKindCases()) {
    SCOPED_TRACE(kind);
    const Job job = ParseModel(model);
    EXPECT_EQ(KindOf(job.model), kind);
    const nlohmann::json json = JobToJson(job).at("model");
    EXPECT_EQ(json.size(), LinesIn(model));
    // No value is the default, so a key that is read but not stored is detected here.
    const std::string task = kind == "bert" ? "task = \"masked_language\"\n" : "";
    const nlohmann::json defaults =
        JobToJson(ParseModel("kind = \"" + kind + "\"\n" + task)).at("model");
    for (const auto& [key, value] : json.items()) {
      if (key == "kind") continue;
      EXPECT_TRUE(!defaults.contains(key) || defaults.at(key) != value) << key;
    }
    EXPECT_EQ(JobToJson(ParseJob(JobToToml(job), "again", "/", {})).dump(), JobToJson(job).dump());
    EXPECT_EQ(JobToJson(JobFromJson(JobToJson(job), "receipt.json")).dump(), JobToJson(job).dump());
  }
}

TEST(JobModelTest, ValuesArriveInTheirFields) {
  const auto gpt = std::get<model::GptOptions>(ParseModel(ModelKindCases()[0].model).model);
  EXPECT_EQ(gpt.n_layer, 2);
  EXPECT_EQ(gpt.n_head, 4);
  EXPECT_EQ(gpt.n_embd, 16);
  EXPECT_EQ(gpt.block_size, 8);
  EXPECT_EQ(gpt.vocab_size, 11);
  EXPECT_EQ(gpt.sequence_length, 6);
  EXPECT_EQ(gpt.dropout, 0.1f);
  EXPECT_FALSE(gpt.bias);
  EXPECT_EQ(gpt.activation, model::ActivationKind::kGelu);
  const auto vit = std::get<model::VitOptions>(ParseModel(ModelKindCases()[3].model).model);
  EXPECT_EQ(vit.image_size, (model::Extent{8, 12}));
  const auto resnet = std::get<model::ResnetOptions>(ParseModel(ModelKindCases()[4].model).model);
  EXPECT_EQ(resnet.image_size, (model::Extent{32, 32}));
  EXPECT_EQ(resnet.widths, (std::vector<std::int64_t>{8, 16}));
  EXPECT_EQ(resnet.block, model::ResnetBlock::kBottleneck);
}

TEST(JobModelTest, ReceiptsHaveShortNumbers) {
  const nlohmann::json json = JobToJson(ParseModel(ModelKindCases()[1].model)).at("model");
  EXPECT_EQ(json.at("rms_norm_eps").dump(), "1e-05");
  EXPECT_EQ(json.at("attention_dropout").dump(), "0.1");
}

TEST(JobModelTest, KeysOfAnotherKindAreRefused) {
  ExpectModelRefused("kind = \"gpt\"\nhidden_size = 16\n",
                     {"model.hidden_size = 16 (line 3 of job.toml)", "kind \"gpt\"",
                      "kind = \"llama\" or \"bert\""});
  ExpectModelRefused("kind = \"gpt\"\nhidden_size = 16\n", {"kind \"gpt\" calls it n_embd"});
  ExpectModelRefused("kind = \"bert\"\ndropout = 0.2\n",
                     {"kind \"bert\" calls it hidden_dropout_prob"});
  ExpectModelRefused("kind = \"gpt\"\nlayers = [4, 3]\n", {"model.layers", "kind = \"mlp\""});
  ExpectModelRefused("layers = [4, 3]\nn_head = 4\n",
                     {"model.n_head = 4 (line 3", "kind \"mlp\"", "kind = \"gpt\""});
  ExpectModelRefused("kind = \"gpd\"\n", {"model.kind = \"gpd\"", "did you mean \"gpt\"?"});
  ExpectModelRefused("kind = \"bert\"\ntask = \"masked_language\"\nnum_labels = 3\n",
                     {"model.num_labels = 3 (line 4", "classification"});
  ExpectModelRefused("kind = \"resnet\"\nnorm_groups = 3\n", {"model.norm_groups", "\"group\""});
  ExpectModelRefused("kind = \"bert\"\n", {"job.toml has no model.task", "\"masked_language\""});
  ExpectModelRefused("kind = \"bert\"\ntask = \"encoder\"\n", {"must be one of masked_language"});
}

// Words of other programs, and misspelt keys, lead to a key of the job's own kind.
TEST(JobModelTest, HintsAreOfTheJobsKind) {
  const auto expect = [](const std::string& kind, const std::string& key, const std::string& hint) {
    ExpectModelRefused("kind = \"" + kind + "\"\n" + key + " = 1\n",
                       {"unknown key '" + key + "' in [model], line 3 of job.toml" + hint});
  };
  expect("gpt", "d_model", ": did you mean 'n_embd'?");
  expect("llama", "d_model", ": did you mean 'hidden_size'?");
  expect("vit", "d_model", ": did you mean 'hidden_dim'?");
  expect("gpt", "n_heads", ": did you mean 'n_head'?");
  expect("gpt", "n_positions", ": did you mean 'block_size'?");
  expect("bert", "n_positions", ": did you mean 'max_position_embeddings'?");
  expect("gpt", "activation_function", ": did you mean 'activation'?");
  expect("bert", "activation_function", ": did you mean 'hidden_act'?");
  expect("gpt", "resid_pdrop", ": did you mean 'dropout'?");
  expect("bert", "resid_pdrop", ": did you mean 'hidden_dropout_prob'?");
  expect("gpt", "attn_pdrop", ": did you mean 'dropout'?");
  expect("vit", "attn_pdrop", ": did you mean 'attention_dropout'?");
  expect("llama", "num_kv_heads", ": did you mean 'num_key_value_heads'?");
  expect("llama", "layer_norm_epsilon", ": did you mean 'rms_norm_eps'?");
  expect("bert", "layer_norm_epsilon", ": did you mean 'layer_norm_eps'?");
  expect("vit", "num_channels", ": did you mean 'channels'?");
  expect("resnet", "hidden_sizes", ": did you mean 'widths'?");
  expect("mlp", "hidden_sizes", ": did you mean 'layers'?");
  expect("llama", "rope_scaling", ": acan does not scale rotary positions");
  // A kind without such a key.
  expect("gpt", "layer_norm_epsilon",
         ": kind \"gpt\" has no such key; other kinds call it 'layer_norm_eps' or 'rms_norm_eps'");
  expect("gpt", "n_inner", ": kind \"gpt\" has no such key");
  expect("mlp", "n_positions", ": kind \"mlp\" has no such key; other kinds call it 'block_size'");
  // The closest word of all kinds would be intermediate_size, and max_position_embeddings.
  expect("gpt", "intermediate_sizes", ": expected one of kind, activation, n_layer, n_head");
  expect("vit", "max_position_embedding", ": expected one of kind");
  expect("bert", "max_position_embedding", ": did you mean 'max_position_embeddings'?");
  // The kind is unknown.
  expect("gpd", "d_model",
         ": did you mean 'n_embd', 'hidden_size' or 'hidden_dim'? That depends on model.kind");
}

TEST(JobModelTest, ValuesOfAnotherTypeAreRefused) {
  ExpectModelRefused("kind = \"gpt\"\nn_head = 4.5\n", {"model.n_head (line 3", "4.5"});
  ExpectModelRefused("kind = \"gpt\"\nbias = 1\n", {"expected true or false"});
  ExpectModelRefused("kind = \"gpt\"\ndropout = \"much\"\n", {"expected a number"});
  ExpectModelRefused("kind = \"gpt\"\nactivation = \"gelo\"\n", {"did you mean \"gelu\"?"});
  ExpectModelRefused("kind = \"vit\"\nimage_size = [1, 2, 3]\n", {"model.image_size", "found 3"});
  ExpectModelRefused("kind = \"vit\"\nimage_size = \"big\"\n", {"model.image_size", "an integer"});
  ExpectModelRefused("kind = \"resnet\"\nwidths = 3\n", {"expected an array of integers"});
}

// The error messages of the presets, with file and key.
TEST(JobModelTest, ValuesThatMakeNoModelAreRefused) {
  ExpectModelRefused("kind = \"gpt\"\nn_head = 5\nn_embd = 16\n",
                     {"line 3 of job.toml: model.n_head = 5 does not divide n_embd = 16"});
  ExpectModelRefused("kind = \"gpt\"\nn_embd = 16\n",
                     {"job.toml: model.n_head = 12 does not divide n_embd = 16"});
  ExpectModelRefused("kind = \"gpt\"\nn_layer = 0\n", {"line 3 of job.toml: model.n_layer = 0"});
  ExpectModelRefused("kind = \"gpt\"\nblock_size = 8\nsequence_length = 9\n",
                     {"line 4 of job.toml: model.sequence_length = 9 is more than block_size = 8"});
  ExpectModelRefused("kind = \"resnet\"\nwidths = [8]\n",
                     {"line 3 of job.toml: model.widths has 1 entries and blocks 4"});
  ExpectModelRefused("kind = \"vit\"\ndropout = 1\n",
                     {"model.dropout = 1 (line 3 of job.toml): must be at least 0 and below 1"});
  ExpectError([] { ParseModel(ModelKindCases()[0].model, "", {"model.n_head=3"}); },
              {"--set model.n_head=3: model.n_head = 3 does not divide"});
}

TEST(JobModelTest, OtherKindsHaveNoPerceptron) {
  for (const auto& [kind, model] : ModelKindCases()) {
    const Job job = ParseModel(model);
    ExpectError([&] { job.perceptron(); },
                {"model.kind = \"" + kind + "\"", "only models of kind \"mlp\""});
    EXPECT_EQ(job.loss(), Loss::kCrossEntropy);
  }
}

TEST(JobModelTest, APerceptronSaysNothingOfKinds) {
  const nlohmann::json json = JobToJson(ParseModel("kind = \"mlp\"\nlayers = [4, 3]\n"));
  EXPECT_FALSE(json.at("model").contains("kind"));
  for (const char* key : {"steps", "evaluate_every", "clip_norm", "decay", "freeze"}) {
    EXPECT_FALSE(json.at("train").contains(key)) << key;
  }
  // This job without a kind has the same id as in earlier releases.
  EXPECT_EQ(TrainingId(ParseModel("layers = [4, 3]\n"), "a", "b"),
            TrainingId(ParseModel("kind = \"mlp\"\nlayers = [4, 3]\n"), "a", "b"));
}

TEST(JobModelTest, ModelsOfLanguageHaveAPerplexity) {
  const std::string gpt =
      "kind = \"gpt\"\nn_layer = 1\nn_head = 1\nn_embd = 4\nblock_size = 3\n"
      "vocab_size = 7\n";
  const auto of = [](const std::string& model, double loss) {
    return PerplexityOf(*BuildModel(ParseModel(model)), loss);
  };
  ASSERT_TRUE(of(gpt, std::log(7.0)).has_value());
  EXPECT_NEAR(*of(gpt, std::log(7.0)), 7, 1e-12);
  EXPECT_EQ(of(gpt, 0), 1);
  EXPECT_FALSE(of(gpt, 701).has_value());
  EXPECT_FALSE(of(gpt, std::nan("")).has_value());
  EXPECT_FALSE(of(gpt + "label_smoothing = 0.1\n", 1).has_value());
  EXPECT_FALSE(of(ModelKindCases()[3].model, 1).has_value());  // a model of images
  EXPECT_FALSE(of("layers = [4, 3]\n", 1).has_value());
}

// Sines of larger angles are not defined.
TEST(LlamaJobTest, PositionsHaveAngles) {
  const std::string llama =
      "kind = \"llama\"\nvocab_size = 64\nhidden_size = 256\nintermediate_size = 32\n"
      "num_hidden_layers = 1\nnum_attention_heads = 2\n";
  ParseModel(llama + "rope_theta = 0.01\n");
  ExpectModelRefused(llama + "rope_theta = 0.001\n",
                     {"model.rope_theta = 0.001 is too small for sequences of 2048 tokens",
                      "head_dim = 128, only positions below 1169 have angles"});
  ParseModel(llama + "rope_theta = 0.001\nsequence_length = 1169\n");
  ParseModel(llama + "max_position_embeddings = 1048576\n");
  ExpectModelRefused(llama + "max_position_embeddings = 1048577\n",
                     {"model.max_position_embeddings = 1048577 must be at most 1048576"});
  ExpectModelRefused(llama + "max_position_embeddings = 9999999\nsequence_length = 1048577\n",
                     {"model.sequence_length = 1048577 must be at most 1048576"});
}

// Two checks of one value must not name two ranges.
TEST(JobModelTest, EachKeyHasOneRange) {
  const std::string gpt = "kind = \"gpt\"\nn_layer = 1\nn_head = 1\n";
  for (const char* value : {"-1", "0", "2147483649"}) {
    ExpectModelRefused(gpt + "n_embd = " + value + "\n",
                       {std::string("line 5 of job.toml: model.n_embd = ") + value +
                        " must be at least 1 and at most 536870911"});
  }
  ExpectModelRefused(gpt + "n_embd = 1.5\n", {"expected an integer, found the number 1.5"});
  ExpectError([&] { ParseModel(gpt, "", {"model.vocab_size=99999999999999999999"}); },
              {"model.vocab_size = 99999999999999999999 (--set", "must be at most 2147483647"});
  const std::string bert = "kind = \"bert\"\ntask = \"masked_language\"\nvocab_size = 9\n";
  for (const char* value : {"-2", "9"}) {
    ExpectModelRefused(
        bert + "pad_token_id = " + value + "\n",
        {std::string("model.pad_token_id = ") + value + " must be at least -1 and at most 8"});
  }
  for (const char* value : {"-1", "0", "1e31"}) {
    ExpectModelRefused(bert + "layer_norm_eps = " + value + "\n",
                       {"model.layer_norm_eps = ", "must be above 0 and at most 1e+30"});
  }
  const std::string resnet = "kind = \"resnet\"\n";
  ExpectModelRefused(resnet + "widths = [8, 0]\n", {"integer from 1 to 536870911"});
  ExpectModelRefused(resnet + "blocks = [1, 10001]\n", {"integer from 1 to 10000"});
}

TEST(JobModelTest, MessagesHaveTheNumbersOfTheJob) {
  ExpectModelRefused(
      "kind = \"gpt\"\nlabel_smoothing = 0.999999999\n",
      {"model.label_smoothing = 0.999999999 (line 3 of job.toml): must be at least 0 "
       "and below 1, and float32 rounds it to 1"});
  ExpectModelRefused("kind = \"bert\"\ntask = \"masked_language\"\nlayer_norm_eps = 1e-50\n",
                     {"model.layer_norm_eps = 1e-50 (line 4 of job.toml): must be above 0, and "
                      "float32 rounds it to 0"});
}

TEST(JobModelTest, StepsTakeThePlaceOfEpochs) {
  const Job job = ParseTraining("steps = 7\nevaluate_every = 3\n");
  EXPECT_EQ(job.training.steps, 7);
  EXPECT_EQ(job.training.evaluate_every, 3);
  EXPECT_EQ(TotalSteps(job.training, 1000), 7);
  EXPECT_EQ(TotalSteps(ParseTraining("epochs = 2\nbatch = 30\n").training, 100), 8);
  const nlohmann::json train = JobToJson(job).at("train");
  EXPECT_EQ(train.at("steps"), 7);
  EXPECT_FALSE(train.contains("epochs"));
  EXPECT_EQ(JobToJson(ParseJob(JobToToml(job), "again", "/", {})).dump(), JobToJson(job).dump());
  ExpectTrainingRefused("steps = 7\nepochs = 1\n",
                        {"train.steps = 7 (line 7 of job.toml)", "train.epochs"});
  ExpectTrainingRefused("steps = -1\n", {"train.steps = -1"});
  ExpectTrainingRefused("evaluate_every = 0\n", {"train.evaluate_every = 0"});
  // An override replaces the file's value, as everywhere.
  EXPECT_FALSE(ParseTraining("steps = 7\n", {"train.epochs=2"}).training.steps.has_value());
  EXPECT_EQ(ParseTraining("epochs = 7\n", {"train.steps=2"}).training.steps, 2);
  EXPECT_THROW(ParseTraining("", {"train.epochs=2", "train.steps=2"}), Error);
}

TEST(JobModelTest, WhenItIsEvaluatedIsNoPartOfTheId) {
  const auto id = [](const std::string& train) {
    return TrainingId(ParseTraining(train), "a", "b");
  };
  EXPECT_EQ(id("evaluate_every = 3\n"), id(""));
  EXPECT_NE(id("steps = 3\n"), id(""));
}

TEST(JobModelTest, RulesOfATraining) {
  const std::string rules =
      "[train]\nclip_norm = 0.5\ndecay = \"matrices\"\nfreeze = [\"transformer.wte.*\"]\n";
  const Job job = ParseModel(ModelKindCases()[0].model, rules);
  EXPECT_EQ(job.training.clip_norm, 0.5);
  EXPECT_EQ(job.decay, model::DecayRule::kMatrices);
  EXPECT_EQ(job.freeze, std::vector<std::string>{"transformer.wte.*"});
  EXPECT_EQ(JobToJson(ParseJob(JobToToml(job), "again", "/", {})).dump(), JobToJson(job).dump());
  const auto refused = [](const std::string& train, const std::vector<std::string>& parts) {
    SCOPED_TRACE(train);
    ExpectError([&] { ParseModel(ModelKindCases()[0].model, "[train]\n" + train); }, parts);
  };
  refused("clip_norm = -1\n", {"train.clip_norm = -1"});
  refused("decay = \"none\"\n", {"must be one of everything, matrices"});
  refused("freeze = [\"transformer.wtf.*\"]\n",
          {" of job.toml: train.freeze: no parameter's name matches", "transformer.wtf.*"});
  refused("freeze = \"all\"\n", {"expected an array of strings"});
  refused("freeze = [3]\n", {"entry 0 is the integer 3"});
  refused("freeze = [\"*\"]\n", {"job.toml: train.freeze leaves no parameter to train"});
}

TEST(JobModelTest, NormsOfOneValueAreNamed) {
  const auto problem = [](const std::string& model, std::int64_t batch, std::int64_t samples,
                          const std::string& train = "") {
    const Job job = ParseModel(
        "kind = \"resnet\"\nimage_size = 4\nwidths = [4, 8]\nblocks = [1, 1]\nnum_classes = 3\n" +
            model,
        fmt::format("[train]\nbatch = {}\n{}", batch, train));
    return NormProblem(*BuildModel(job), job.training, samples);
  };
  EXPECT_EQ(problem("", 4, 8), "");
  EXPECT_EQ(problem("", 4, 6), "");
  const std::string last = problem("", 4, 9);
  EXPECT_NE(last.find("9 samples in batches of 4"), std::string::npos) << last;
  EXPECT_NE(problem("", 1, 8), "");
  EXPECT_NE(problem("", 4, 1), "");
  EXPECT_EQ(problem("stem = \"small\"\n", 1, 8), "") << "it has larger maps";
  // No step trains the last batch of one sample.
  EXPECT_EQ(problem("", 4, 9, "steps = 0\n"), "");
  EXPECT_EQ(problem("", 4, 9, "epochs = 0\n"), "");
  EXPECT_EQ(problem("", 4, 9, "steps = 2\n"), "");
  EXPECT_EQ(problem("", 4, 9, "steps = 3\n"), last);
  const std::string groups = "norm = \"group\"\nnorm_groups = ";
  EXPECT_EQ(problem(groups + "2\n", 1, 8), "");
  const std::string single = problem(groups + "4\n", 4, 8);
  EXPECT_NE(single.find("gets one value per group"), std::string::npos) << single;
}

// For any value of a number, the job is either refused with a message about it, or its model has
// matrices whose sizes tasks can represent.
TEST(JobModelTest, ExtremeNumbersAreRefusedOrMakeAModel) {
  // All that TOML accepts as a number. The largest numbers of layers take seconds.
  const std::vector<std::string> values = {"0",          "-1",
                                           "1",          "32768",
                                           "2147483647", "2147483648",
                                           "4294967296", "9007199254740992",
                                           "nan",        "inf",
                                           "1e308",      "1e-300",
                                           "-0.0",       "9223372036854775807"};
  for (const auto& [kind, model] : ModelKindCases()) {
    const std::string sections = "[model]\n" + model + kModelData;
    std::istringstream lines(model);
    for (std::string line; std::getline(lines, line);) {
      const std::string key = line.substr(0, line.find(' '));
      for (const std::string& value : values) {
        const std::string set = fmt::format("model.{}={}", key, value);
        SCOPED_TRACE(kind + ": " + set);
        try {
          const Job job = ParseJob(sections, "job.toml", "/jobs", {set});
          for (const model::Value& made : BuildModel(job)->training.values()) {
            EXPECT_LE(made.shape.rows, INT32_MAX) << made.name;
            EXPECT_LE(made.shape.features, INT32_MAX) << made.name;
          }
        } catch (const Error& error) {
          const std::string what = error.what();
          EXPECT_EQ(error.exit_code(), 2) << what;
          // Another key may be too small or too large for this one.
          const std::vector<std::string> parts = {key, "has the shape", "rows for each sample",
                                                  "is too small"};
          EXPECT_TRUE(std::ranges::any_of(parts, [&](const std::string& part) {
            return what.find(part) != std::string::npos;
          })) << what;
        }
      }
    }
  }
}

TEST(JobModelTest, ABatchHasNoMoreRowsThanTasksCount) {
  const std::string gpt = "kind = \"gpt\"\nn_layer = 1\nn_head = 1\nn_embd = 8\nvocab_size = 11\n";
  const std::string train = "[train]\nbatch = 524288\n";
  ParseModel(gpt + "block_size = 4095\n", train);
  ExpectError([&] { ParseModel(gpt + "block_size = 4096\n", train); },
              {"job.toml: train.batch = 524288: must be from 1 to 524287 for this model",
               "'tokens'", "4096 rows for each sample"});
}

TEST(BuildModelTest, BothGraphsHaveTheSameParameters) {
  for (const auto& [kind, text] : ModelKindCases()) {
    SCOPED_TRACE(kind);
    const auto model = BuildModel(ParseModel(text));
    EXPECT_EQ(model->kind, kind);
    EXPECT_EQ(model->training.parameters(), model->evaluation.parameters());
    EXPECT_FALSE(model->training.gradients().empty());
    EXPECT_TRUE(model->evaluation.gradients().empty());
  }
}

// Tiles and initial weights depend on the numbers of parameters, files on their names.
TEST(BuildModelTest, AWeightOfAPerceptronComesBeforeTheBiasOfItsLayer) {
  const auto model = BuildModel(ParseModel("layers = [4, 5, 3]\nactivation = \"identity\"\n"));
  EXPECT_EQ(model->kind, "mlp");
  std::vector<std::string> names;
  for (const model::Parameter& parameter : model->training.parameters()) {
    names.push_back(parameter.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"layers.0.weight", "layers.0.bias", "layers.1.weight",
                                             "layers.1.bias"}));
}

TEST(BuildModelTest, FreezeAndDecayAreApplied) {
  const auto model =
      BuildModel(ParseModel(ModelKindCases()[0].model,
                            "[train]\nfreeze = [\"transformer.wte.*\"]\ndecay = \"matrices\"\n"));
  for (const model::Graph* graph : {&model->training, &model->evaluation}) {
    for (const model::Parameter& parameter : graph->parameters()) {
      EXPECT_EQ(parameter.frozen, parameter.name == "transformer.wte.weight") << parameter.name;
      EXPECT_EQ(parameter.decayed,
                parameter.role == model::Role::kMatrix || parameter.role == model::Role::kEmbedding)
          << parameter.name;
    }
  }
}

}  // namespace
}  // namespace acan
