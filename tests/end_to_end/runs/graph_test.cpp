// Graphs of operators on whole clusters: the trained weights are the same bits for any handlers,
// any memory and any kills, and acan can read the files again.
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "data_files.h"
#include "gtest/gtest.h"
#include "ragged_job.h"

namespace acan::testing {
namespace {

enum class Kind { kText, kImages, kSequences };

struct GraphJob {
  std::string name;
  std::string model;  // keys of [model]
  Kind kind = Kind::kText;
  std::string train = {};  // keys of [train]
};
void PrintTo(const GraphJob& job, std::ostream* out) {
  *out << job.name;
}

const std::vector<GraphJob> kJobs = {
    {"gpt", R"(kind = "gpt"
n_layer = 2
n_head = 3
n_embd = 48
block_size = 40
vocab_size = 64
dropout = 0.1
)"},
    {"gpt_clipped", R"(kind = "gpt"
n_layer = 1
n_head = 3
n_embd = 144
block_size = 40
vocab_size = 64
dropout = 0
)",
     Kind::kText, "clip_norm = 0.5\nfreeze = [\"transformer.wpe.*\"]\n"},
    {"llama", R"(kind = "llama"
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
hidden_size = 64
intermediate_size = 96
max_position_embeddings = 40
vocab_size = 64
)"},
    {"bert", R"(kind = "bert"
task = "masked_language"
num_hidden_layers = 1
num_attention_heads = 2
hidden_size = 32
intermediate_size = 48
max_position_embeddings = 24
vocab_size = 30
)",
     Kind::kSequences},
    {"vit", R"(kind = "vit"
image_size = [9, 9]
channels = 1
patch_size = 3
num_layers = 2
num_heads = 2
hidden_dim = 32
mlp_dim = 48
num_classes = 10
)",
     Kind::kImages},
    {"resnet", R"(kind = "resnet"
image_size = [9, 9]
channels = 1
widths = [8, 16]
blocks = [1, 1]
stem = "small"
norm = "group"
norm_groups = 4
num_classes = 10
)",
     Kind::kImages},
    {"resnet_with_batch_norm", R"(kind = "resnet"
image_size = [9, 9]
channels = 1
widths = [8, 16]
blocks = [1, 1]
stem = "small"
num_classes = 10
)",
     Kind::kImages},
    {"convnext", R"(kind = "convnext"
image_size = [9, 9]
channels = 1
patch_size = 3
widths = [8]
blocks = [2]
num_classes = 10
)",
     Kind::kImages},
};

// Sentences of a few words whose order can be learned.
std::string Text() {
  const std::vector<std::string> words = {"the ",   "king ", "of ",  "all ",
                                          "lands ", "went ", "up.\n"};
  std::string text;
  for (std::size_t i = 0; text.size() < 6000; ++i) text += words[(i * i + i / 7) % words.size()];
  return text;
}

// Sequences of different lengths in which some tokens are hidden; all other tokens have the label
// -100.
void WriteSequences(const TestFolder& folder) {
  constexpr std::uint32_t kSamples = 60, kTokens = 24;
  std::string tokens, labels, lengths;
  for (std::size_t s = 0; s < kSamples; ++s) {
    const std::size_t length = 5 + s * 7 % 20;
    lengths.push_back(static_cast<char>(length));
    for (std::size_t t = 0; t < kTokens; ++t) {
      const auto token = static_cast<char>(2 + (s + t * t) % 28);
      const bool hidden = t < length && (s * 5 + t * 3) % 7 == 0;
      tokens.push_back(t >= length ? '\0' : hidden ? '\1' : token);
      const std::int32_t label = hidden ? token : -100;
      labels.append(reinterpret_cast<const char*>(&label), sizeof label);
    }
  }
  folder.Write("tokens", NpyFile("|u1", {kSamples, kTokens}, tokens));
  folder.Write("labels", NpyFile("<i4", {kSamples, kTokens}, labels));
  folder.Write("lengths", NpyFile("|u1", {kSamples, 1}, lengths));
}

class GraphTest : public ::testing::TestWithParam<GraphJob> {
 protected:
  GraphTest() : job_(WriteJob()) {
    const nlohmann::json receipt =
        Train(job_, folder_ / "reference", {"--handlers", "cpu:1@64MiB"});
    if (!receipt.is_object()) return;
    reference_ = receipt["weights_sha256"];
    test_loss_ = receipt["test_loss"];
  }

  std::string WriteJob() {
    std::string data;
    if (GetParam().kind == Kind::kSequences) {
      WriteSequences(folder_);
      for (const std::string set : {"train_", "test_"}) {
        for (const std::string file : {"tokens", "labels", "lengths"}) {
          data += set + file + " = \"" + file + "\"\n";
        }
      }
    } else if (GetParam().kind == Kind::kText) {
      folder_.Write("text.txt", Text());
      data = "text = \"text.txt\"\ntokenizer = \"characters\"\ntest_fraction = 0.1\n";
    } else {
      std::string images, labels;
      for (std::uint32_t i = 0; i < 60; ++i) {
        const std::uint32_t label = i * 7 % 10;
        labels.push_back(static_cast<char>(label));
        for (std::uint32_t p = 0; p < 81; ++p) {
          images.push_back(static_cast<char>(p / 8 == label ? 200 : (i * 31 + p * 17) % 97));
        }
      }
      folder_.Write("images", IdxFile({60, 9, 9}, images));
      folder_.Write("labels", IdxFile({60}, labels));
      data =
          "train_inputs = \"images\"\ntrain_labels = \"labels\"\ntest_inputs = \"images\"\n"
          "test_labels = \"labels\"\n";
    }
    return folder_.Write("job.toml", "[model]\n" + GetParam().model + "[data]\n" + data + R"([train]
batch = 6
steps = 12
evaluate_every = 12
optimizer = "adamw"
learning_rate = 0.01
decay = "matrices"
seed = 3
)" + GetParam().train);
  }

  // Writes the job with its model as a graph file, net.json; returns the job's path.
  std::string WriteGraphJob(const std::string& graph) {
    folder_.Write("net.json", graph);
    const std::string text = ReadFile(job_);
    return folder_.Write("graph.toml", "[model]\nkind = \"graph\"\nfile = \"net.json\"\n" +
                                           text.substr(text.find("[data]")));
  }

  void ExpectSame(const std::vector<std::string>& words) {
    ASSERT_EQ(reference_.size(), 64u);
    const nlohmann::json receipt = Train(job_, folder_ / "out", words);
    ASSERT_TRUE(receipt.is_object());
    EXPECT_EQ(receipt["weights_sha256"], reference_) << ::testing::PrintToString(words);
    EXPECT_EQ(receipt["test_loss"], test_loss_) << ::testing::PrintToString(words);
    EXPECT_EQ(HashOfModelFile(folder_ / "out/model.safetensors"), reference_);
  }

  TestFolder folder_;
  std::string job_;
  std::string reference_;
  nlohmann::json test_loss_;
};

TEST_P(GraphTest, TrainsTheSameBitsOnAnyHandlers) {
  ExpectSame({"--handlers", "3xcpu:1@64MiB"});
  ExpectSame({"--handlers", "cpu:2@64MiB,cpu:1@512KiB"});
  ExpectSame({"--handlers", "2xcpu:1@256KiB"});
  ExpectSame({"--handlers", "2xcpu:1@64MiB", "--set", "tasks.audit=1"});
}

TEST_P(GraphTest, IsVerifiedAndGoesOnFromItsFile) {
  ASSERT_EQ(reference_.size(), 64u);
  const Result verified = RunAcan({"verify", folder_ / "reference"});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  // A run that writes the weights that it read: its learning rate is 0.
  const nlohmann::json receipt =
      Train(job_, folder_ / "again",
            {"--handlers", "cpu:1@64MiB", "--set",
             "model.initial_weights=" + (folder_ / "reference/model.safetensors"), "--set",
             "train.learning_rate=0", "--set", "train.optimizer=sgd", "--set", "train.steps=1",
             "--set", "train.evaluate_every=1", "--set", "train.weight_decay=0"});
  ASSERT_TRUE(receipt.is_object());
  if (GetParam().name == "resnet_with_batch_norm") {
    // Each step updates running statistics, even with a learning rate of 0.
    const auto weights = [this](const std::string& run) {
      std::map<std::string, std::string> tensors =
          TensorsOfModelFile(folder_ / (run + "/model.safetensors"));
      std::erase_if(tensors, [](const auto& tensor) {
        return tensor.first.find(".running_") != std::string::npos ||
               tensor.first.ends_with(".num_batches_tracked");
      });
      return tensors;
    };
    EXPECT_GT(weights("reference").size(), 0u);
    EXPECT_TRUE(weights("again") == weights("reference"));
    return;
  }
  EXPECT_EQ(receipt["weights_sha256"], reference_);
  EXPECT_EQ(receipt["test_loss"], test_loss_);
}

// Evaluation uses the same tasks as during training, so it gives the same figures.
TEST_P(GraphTest, IsEvaluatedFromItsFolder) {
  ASSERT_EQ(reference_.size(), 64u);
  const Result eval =
      RunAcan({"eval", folder_ / "reference", "--handlers", "cpu:1@512KiB,cpu:1@64MiB", "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  const nlohmann::json evaluated = nlohmann::json::parse(LastLine(eval.out));
  const nlohmann::json trained =
      nlohmann::json::parse(ReadFile(folder_ / "reference/receipt.json"));
  for (const char* figure : {"test_loss", "test_accuracy", "weights_sha256"}) {
    EXPECT_EQ(evaluated[figure], trained[figure]) << figure;
  }
  ASSERT_EQ(evaluated.contains("test_perplexity"), GetParam().kind != Kind::kImages);
  EXPECT_EQ(evaluated.value("test_perplexity", 0.0), trained.value("test_perplexity", 0.0));
  if (GetParam().kind != Kind::kText) return;
  EXPECT_NEAR(evaluated["test_perplexity"].get<double>(), std::exp(test_loss_.get<double>()), 1e-9);
  // A part of the text of the training.
  folder_.Write("other.txt", Text().substr(0, 600));
  const Result other = RunAcan({"eval", folder_ / "reference", "--handlers", "cpu:1@64MiB",
                                "--inputs", folder_ / "other.txt", "--json"});
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_NE(nlohmann::json::parse(LastLine(other.out))["test_loss"], test_loss_);
}

// The graph's file is removed after training; the run's folder has a copy.
TEST_P(GraphTest, TrainsTheSameBitsFromAGraphFile) {
  ASSERT_EQ(reference_.size(), 64u);
  const Result printed = RunAcan({"graph", job_});
  ASSERT_EQ(printed.code, 0) << printed.err;
  const std::string job = WriteGraphJob(printed.out);
  const std::string out = folder_ / "from_file";
  const nlohmann::json receipt = Train(job, out, {"--handlers", "2xcpu:1@512KiB"});
  ASSERT_TRUE(receipt.is_object());
  EXPECT_EQ(receipt["weights_sha256"], reference_);
  EXPECT_EQ(receipt["test_loss"], test_loss_);
  EXPECT_EQ(ReadFile(out + "/graph.json"), printed.out);

  std::filesystem::remove(folder_ / "net.json");
  const Result eval = RunAcan({"eval", out, "--handlers", "cpu:1@64MiB", "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_EQ(nlohmann::json::parse(LastLine(eval.out))["test_loss"], test_loss_);
  folder_.Write("net.json", "of the next experiment");
  const Result verified = RunAcan({"verify", out});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
}

TEST_P(GraphTest, ContinuesATextWhereItIsAModelOfLanguage) {
  ASSERT_EQ(reference_.size(), 64u);
  const auto generate = [this](const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "generate", folder_ / "reference", "--prompt", "the king ", "--tokens", "60"};
    if (GetParam().kind != Kind::kText) {
      words[2] = "--prompt-tokens";
      words[3] = "1";
    }
    words.insert(words.end(), more.begin(), more.end());
    return RunAcan(words);
  };
  const Result text = generate({"--device", "cpu:1"});
  if (GetParam().kind != Kind::kText) {
    EXPECT_EQ(text.code, 2);
    EXPECT_NE(text.err.find("cannot generate text"), std::string::npos) << text.err;
    return;
  }
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out.size(), 61u);  // the text has ASCII characters only
  EXPECT_EQ(generate({"--device", "cpu:2"}).out, text.out);
  EXPECT_NE(generate({"--seed", "2"}).out, text.out);
  const Result likely = generate({"--temperature", "0"});
  EXPECT_EQ(generate({"--top-k", "1", "--seed", "9"}).out, likely.out);
  const Result unknown = RunAcan({"generate", folder_ / "reference", "--prompt", "the Zebra"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("--prompt, line 1: has the character 'Z'"), std::string::npos)
      << unknown.err;
}

// Models with parameters that have no optimizer state (frozen ones, and running statistics), and
// small ones of all other kinds.
class GraphResumeTest : public GraphTest {
 protected:
  static constexpr const char* kSteps = "train.steps=160;train.evaluate_every=20";
  const Environment environment_ = {{"ACAN_SET", kSteps}};

  // Stops a training of `job` after some steps and moves its folder, as to another host.
  void StopAndMove(const std::string& job, const std::string& moved) {
    const std::string out = folder_ / "out";
    Program first({"train", job, "--out", out, "--handlers", "cpu:1@64MiB"}, environment_);
    ASSERT_TRUE(first.WaitForErr("test loss")) << first.err();
    first.Signal(SIGINT);
    ASSERT_EQ(first.Wait(), 128 + SIGINT) << first.err();
    std::filesystem::create_directories(std::filesystem::path(moved).parent_path());
    std::filesystem::rename(out, moved);
  }
  void ExpectGoesOn(Program& resumed, const std::string& out, const std::string& from) {
    EXPECT_EQ(resumed.Wait(), 0) << resumed.err();
    EXPECT_NE(resumed.err().find("continuing from " + from), std::string::npos) << resumed.err();
    const nlohmann::json straight =
        Train(job_, folder_ / "straight", {"--handlers", "cpu:1@64MiB"}, environment_);
    ASSERT_TRUE(straight.is_object());
    EXPECT_EQ(straight["weights_sha256"], HashOfModelFile(out + "/model.safetensors"));
  }
};

TEST_P(GraphResumeTest, GoesOnFromASnapshotElsewhere) {
  const std::string moved = folder_ / "elsewhere/run";
  ASSERT_NO_FATAL_FAILURE(StopAndMove(job_, moved));
  Program second({"train", "--resume", moved, "--handlers", "2xcpu:1@512KiB"});
  ExpectGoesOn(second, moved, "snapshot");
}

TEST_P(GraphResumeTest, GoesOnFromTheSpace) {
  const std::string out = folder_ / "out", endpoint = "ipc://" + (folder_ / "space");
  Program broker({"broker", "--listen", endpoint});
  Program handler({"handler", "--connect", endpoint, "--device", "cpu:1", "--memory", "512KiB"});
  const std::vector<std::string> words = {"manager", "--connect", endpoint, job_, "--out", out};
  Program first(words, environment_);
  ASSERT_TRUE(first.WaitForErr("test loss")) << first.err();
  first.Signal(SIGKILL);
  first.Wait();
  std::vector<std::string> resumes = words;
  resumes.emplace_back("--resume");
  Program second(resumes, environment_);
  ExpectGoesOn(second, out, "the weights in the space");
}

std::vector<GraphJob> ResumedJobs() {
  std::vector<GraphJob> jobs = {
      {"frozen_gpt", R"(kind = "gpt"
n_layer = 1
n_head = 2
n_embd = 24
block_size = 20
vocab_size = 64
dropout = 0
)",
       Kind::kText, "clip_norm = 0.5\nfreeze = [\"transformer.wpe.*\"]\n"},
      {"resnet_with_batch_norm", R"(kind = "resnet"
image_size = [9, 9]
channels = 1
widths = [8]
blocks = [1]
stem = "small"
num_classes = 10
)",
       Kind::kImages},
  };
  for (const GraphJob& job : kJobs) {
    if (!job.name.starts_with("gpt") && !job.name.starts_with("resnet")) jobs.push_back(job);
  }
  return jobs;
}

INSTANTIATE_TEST_SUITE_P(Kinds, GraphResumeTest, ::testing::ValuesIn(ResumedJobs()),
                         [](const auto& parameter) { return parameter.param.name; });

class GraphFileResumeTest : public GraphResumeTest {};

// The other host does not have the graph's file, but the run's folder has a copy.
TEST_P(GraphFileResumeTest, GoesOnElsewhereWithTheCopyOfItsFile) {
  const Result printed = RunAcan({"graph", job_});
  ASSERT_EQ(printed.code, 0) << printed.err;
  const std::string moved = folder_ / "elsewhere/run";
  ASSERT_NO_FATAL_FAILURE(StopAndMove(WriteGraphJob(printed.out), moved));
  std::filesystem::remove(folder_ / "net.json");
  Program second({"train", "--resume", moved, "--handlers", "2xcpu:1@512KiB"});
  ExpectGoesOn(second, moved, "snapshot");
}

INSTANTIATE_TEST_SUITE_P(Kinds, GraphFileResumeTest, ::testing::Values(ResumedJobs()[1]),
                         [](const auto& parameter) { return parameter.param.name; });

// The refusal names the smallest memory for which training starts. That little memory cuts
// attention into heads and products into tiles; the bits stay the same.
class SmallestMemoryTest : public GraphTest {};

TEST_P(SmallestMemoryTest, TrainsTheSameBitsWithWhatTheRefusalNames) {
  const Result refused =
      RunAcan({"train", job_, "--handlers", "cpu:1@64KiB", "--out", folder_ / "refused"});
  EXPECT_EQ(refused.code, 1);
  std::smatch found;
  const std::regex needs("needs ([0-9]+[A-Za-z]+) at its smallest");
  ASSERT_TRUE(std::regex_search(refused.err, found, needs)) << refused.err;
  ExpectSame({"--handlers", "2xcpu:1@" + found[1].str()});
}

INSTANTIATE_TEST_SUITE_P(Kinds, SmallestMemoryTest, ::testing::Values(kJobs.front()),
                         [](const auto& parameter) { return parameter.param.name; });

INSTANTIATE_TEST_SUITE_P(Kinds, GraphTest, ::testing::ValuesIn(kJobs),
                         [](const auto& parameter) { return parameter.param.name; });

// The example's graph file is the expansion of a preset.
TEST(GraphFileTest, TheExampleTrainsAsThePresetThatItSpellsOut) {
  const TestFolder folder;
  const std::string text = folder.Write("text.txt", Text());
  const std::vector<std::string> words = {"--handlers",    "cpu:1@64MiB", "--set",
                                          "train.steps=5", "--set",       "data.text=" + text};
  const auto train = [&](const std::string& example, std::vector<std::string> more) {
    more.insert(more.end(), words.begin(), words.end());
    return Train(ACAN_EXAMPLES + example, folder / "out", more);
  };
  const nlohmann::json of_file = train("/graph.toml", {});
  const nlohmann::json of_preset = train(
      "/gpt.toml",
      {"--set", "model.n_layer=2", "--set", "model.n_embd=64", "--set", "output.config=none"});
  ASSERT_TRUE(of_file.is_object() && of_preset.is_object());
  EXPECT_EQ(of_file["weights_sha256"], of_preset["weights_sha256"]);
  EXPECT_EQ(of_file["test_loss"], of_preset["test_loss"]);
}

// `acan graph` prints perceptrons with the order of their sums (docs/numerics.md), so the bits are
// the same.
TEST(GraphFileTest, APerceptronOfValuesIsAGraphToo) {
  const TestFolder folder;
  const std::string rest = R"([data]
generated = "regression"
samples = 200
[train]
batch = 37
epochs = 2
optimizer = "momentum"
learning_rate = 0.01
)";
  const std::string job = folder.Write(
      "job.toml", "[model]\nlayers = [9, 33, 3]\nloss = \"mse\"\nactivation = \"tanh\"\n" + rest);
  const Result printed = RunAcan({"graph", job});
  ASSERT_EQ(printed.code, 0) << printed.err;
  folder.Write("net.json", printed.out);
  const std::string graph_job =
      folder.Write("graph.toml", "[model]\nkind = \"graph\"\nfile = \"net.json\"\n" + rest);
  const nlohmann::json of_layers = Train(job, folder / "layers", {"--handlers", "cpu:1@64MiB"});
  const nlohmann::json of_graph =
      Train(graph_job, folder / "graph", {"--handlers", "2xcpu:1@1MiB"});
  ASSERT_TRUE(of_layers.is_object() && of_graph.is_object());
  EXPECT_EQ(of_graph["weights_sha256"], of_layers["weights_sha256"]);
  EXPECT_EQ(of_graph["test_loss"], of_layers["test_loss"]);
}

}  // namespace
}  // namespace acan::testing
