// Files of other tools: other names of the tensors, tensors twice, and tensors beyond the model's.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "acan/manager/model_file.h"
#include "graph_files.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {
namespace {

// The same file with other names of its tensors.
Parsed WithNames(const Parsed& file,
                 const std::function<std::string(const std::string&)>& other_name) {
  Parsed renamed{nlohmann::json::object(), file.values};
  for (const auto& [name, tensor] : file.header.items()) {
    renamed.header[other_name(name)] = tensor;
  }
  return renamed;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

std::string TensorFlowNameOf(const std::string& name) {
  return Replaced(Replaced(name, "LayerNorm.weight", "LayerNorm.gamma"), "LayerNorm.bias",
                  "LayerNorm.beta");
}

model::BertOptions SmallBert(model::BertTask task) {
  model::BertOptions options;
  options.task = task;
  options.vocab_size = 7;
  options.hidden_size = 4;
  options.intermediate_size = 6;
  options.num_hidden_layers = 1;
  options.num_attention_heads = 2;
  options.max_position_embeddings = 5;
  return options;
}

// As `acan embed` builds it.
TrainedModel SmallEncoder(bool pools) {
  model::BertOptions options = SmallBert(model::BertTask::kEncoder);
  options.add_pooling_layer = pools;
  TrainedModel model{"bert", {}, model::Bert(options, model::Mode::kEvaluation)};
  model.training = model.evaluation;
  return model;
}

// transformers may write the head of a tied model as well.
TEST(OtherNamesTest, ATiedTensorMayBeThereTwiceIfItIsTheSame) {
  const TestFolder folder;
  const auto model = Build(SmallGpt());
  const std::string path = folder.Path("model.safetensors");
  const std::string hash = WriteGraphModel(path, *model, 9);
  const Parsed file = Parse(path);
  EXPECT_FALSE(file.header.contains("lm_head.weight"));
  const std::string table = file.Bytes("transformer.wte.weight");
  Parsed twice = file;
  twice.Append("lm_head.weight", "F32", {7, 6}, table);
  EXPECT_EQ(ModelReader(folder.Write("twice", twice.Whole()), *model).WeightsSha256(), hash);
  Parsed differs = file;
  std::string changed = table;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  differs.Append("lm_head.weight", "F32", {7, 6}, changed);
  ExpectError([&] { ModelReader(folder.Write("differs", differs.Whole()), *model); },
              {"/differs", "'lm_head.weight' differs from 'transformer.wte.weight'"});
  Parsed half = file;
  half.Append("lm_head.weight", "F16", {7, 6}, table.substr(0, table.size() / 2));
  ExpectError([&] { ModelReader(folder.Write("half", half.Whole()), *model); },
              {"'lm_head.weight' has dtype \"F16\", expected \"F32\"", "tied"});
  Parsed other = file;
  other.Append("lm_head.weight", "F32", {6, 7}, table);
  ExpectError([&] { ModelReader(folder.Write("other", other.Whole()), *model); },
              {"/other", "'lm_head.weight' has shape [6,7], expected [7,6]", "tied"});
}

// safetensors.torch.save_model keeps the name that comes first in the alphabet.
TEST(OtherNamesTest, ATiedTensorMayBeThereUnderItsOtherNameOnly) {
  const TestFolder folder;
  const auto model = Build(SmallGpt());
  const std::string path = folder.Path("model.safetensors");
  const std::string hash = WriteGraphModel(path, *model, 9);
  Parsed head = WithNames(Parse(path), [](const std::string& name) {
    return Replaced(name, "transformer.wte.weight", "lm_head.weight");
  });
  EXPECT_EQ(ModelReader(folder.Write("head", head.Whole()), *model).WeightsSha256(), hash);
  head.header["lm_head.weight"]["shape"] = {6, 7};
  ExpectError([&] { ModelReader(folder.Write("turned", head.Whole()), *model); },
              {"/turned", "'lm_head.weight' has shape [6,7], expected [7,6]"});
}

// transformers names them so again when it saves a BERT that it read from a file with these names.
TEST(OtherNamesTest, LayerNormsMayHaveTheNamesOfTensorFlow) {
  const TestFolder folder;
  const auto model = Build(SmallBert(model::BertTask::kMaskedLanguage));
  const std::string path = folder.Path("model.safetensors");
  const std::string hash = WriteGraphModel(path, *model, 9);
  const Parsed older = WithNames(Parse(path), TensorFlowNameOf);
  EXPECT_TRUE(older.header.contains("bert.embeddings.LayerNorm.gamma"));
  EXPECT_TRUE(older.header.contains("cls.predictions.transform.LayerNorm.beta"));
  const std::string renamed = folder.Write("older", older.Whole());
  EXPECT_EQ(ModelReader(renamed, *model).WeightsSha256(), hash);
  const TrainedModel encoder = SmallEncoder(false);
  EXPECT_EQ(ModelReader(renamed, encoder, "bert.").WeightsSha256(),
            ModelReader(path, encoder, "bert.").WeightsSha256());
  // The file of a base model has no prefix.
  const Parsed base =
      WithNames(older, [](const std::string& name) { return Replaced(name, "bert.", ""); });
  EXPECT_EQ(ModelReader(folder.Write("base", base.Whole()), *model).WeightsSha256(), hash);
}

// In a model of transformers it would be the mask of attention.
TEST(OtherNamesTest, AWeightOfAGraphIsNotTakenForAMask) {
  const TestFolder folder;
  TrainedModel model;
  model.kind = "graph";
  model::Graph& graph = model.training;
  const auto x = graph.AddInput("x", model::InputRole::kNumbers, 1, 2);
  const auto weight =
      graph.AddParameter(model::MatrixParameter("decoder.attn.weight", 3, 2, model::Constant{}));
  graph.AddOutput("y", graph.Add("decoder.attn", model::Linear{}, {x, weight}));
  const std::string path = folder.Path("model.safetensors");
  WriteGraphModel(path, model, 9);
  Parsed file = Parse(path);
  file.Append("decoder.attn.bias", "F32", {3}, std::string(12, '\0'));
  ExpectError([&] { ModelReader(folder.Write("more", file.Whole()), model); },
              {"has the tensor 'decoder.attn.bias', which the model lacks", "kind \"graph\""});
}

TEST(OtherNamesTest, ATiedModelOfAJobThatDoesNotTieIsNamed) {
  const TestFolder folder;
  model::LlamaOptions llama = SmallLlama();
  llama.tie_word_embeddings = true;
  const std::string path = folder.Path("model.safetensors");
  WriteGraphModel(path, *Build(llama), 9);
  llama.tie_word_embeddings = false;
  const std::string question = "is the model tied (model.tie_word_embeddings = true)?";
  ExpectError([&] { ModelReader(path, *Build(llama)); },
              {"lacks the tensor 'lm_head.weight'", "kind \"llama\"", question});
  const Parsed head = WithNames(Parse(path), [](const std::string& name) {
    return Replaced(name, "model.embed_tokens.weight", "lm_head.weight");
  });
  ExpectError([&] { ModelReader(folder.Write("head", head.Whole()), *Build(llama)); },
              {"lacks the tensor 'model.embed_tokens.weight'", question});
}

// Like the file of OpenAI's GPT-2: names of the base model, and the masks of attention.
TEST(OtherNamesTest, FilesOfBaseModelsLackAPrefixAndHaveMasks) {
  const TestFolder folder;
  const auto gpt = Build(SmallGpt());
  const std::string path = folder.Path("model.safetensors");
  WriteGraphModel(path, *gpt, 9);
  const std::string sha256 = ModelReader(path, *gpt).WeightsSha256();
  Parsed base = Parse(path);
  base.Append("transformer.h.0.attn.bias", "BOOL", {4}, std::string(4, '\0'));
  base =
      WithNames(base, [](const std::string& name) { return Replaced(name, "transformer.", ""); });
  EXPECT_EQ(ModelReader(folder.Write("base", base.Whole()), *gpt).WeightsSha256(), sha256);
}

// An encoder can be read from its own file, from one with a head, and without the pooling layer.
TEST(OtherNamesTest, TheBaseOfAModelIsReadFromFilesOfTheWhole) {
  const TestFolder folder;
  const auto whole = [&](model::BertTask task) {
    const std::string path = folder.Path("whole");
    WriteGraphModel(path, *Build(SmallBert(task)), 9);
    return path;
  };
  const TrainedModel with = SmallEncoder(true), without = SmallEncoder(false);
  const std::string classifier = whole(model::BertTask::kClassification);
  EXPECT_EQ(ModelReader(classifier, with, "bert.").Tensors().size(), 23u);
  const ModelReader read(classifier, without, "bert.");
  ASSERT_EQ(read.Tensors().size(), 21u);
  const Parsed file = Parse(classifier);
  for (std::size_t i = 0; i < read.Tensors().size(); ++i) {
    const TensorInfo& tensor = read.Tensors()[i];
    const std::string bytes = file.Bytes("bert." + tensor.name);
    std::vector<float> values(bytes.size() / sizeof(float));
    read.Read(i, 0, 0, tensor.rows, tensor.cols, values);
    EXPECT_EQ(std::memcmp(values.data(), bytes.data(), bytes.size()), 0) << tensor.name;
  }
  ExpectError([&] { ModelReader(classifier, with); }, {"/whole", "lacks 23 tensors"});
  // A masked language model has no pooling layer.
  const std::string masked = whole(model::BertTask::kMaskedLanguage);
  EXPECT_EQ(ModelReader(masked, without, "bert.").Tensors().size(), 21u);
  ExpectError([&] { ModelReader(masked, with, "bert."); },
              {"/whole", "lacks 2 tensors of the model (the first is 'pooler.dense.bias')"});
}

// PyTorch stores them, and `acan embed` does not read what the encoder lacks.
TEST(OtherNamesTest, OtherTensorsMayHaveNoElements) {
  const TestFolder folder;
  const std::string path = folder.Path("model.safetensors");
  WriteGraphModel(path, *Build(SmallBert(model::BertTask::kMaskedLanguage)), 9);
  const TrainedModel encoder = SmallEncoder(false);
  const std::string hash = ModelReader(path, encoder, "bert.").WeightsSha256();
  Parsed file = Parse(path);
  file.Append("head.empty", "F32", {0}, "");
  // It lies where the first tensor begins, whose name comes before its own.
  file.header["z.empty"] = {{"dtype", "F32"}, {"shape", {3, 0}}, {"data_offsets", {0, 0}}};
  EXPECT_EQ(ModelReader(folder.Write("more", file.Whole()), encoder, "bert.").WeightsSha256(),
            hash);
}

}  // namespace
}  // namespace acan
