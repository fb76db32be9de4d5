// acan predict: the loss and the accuracy that follow from its logits are those that the run has
// measured on the same samples.
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "program.h"

namespace acan::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kSamples = 24;

// An IDX file of bytes below `bound`, which follow no rule that a small model could learn.
std::string Bytes(const std::vector<std::size_t>& shape, unsigned bound, unsigned seed) {
  std::string file{'\0', '\0', '\010', static_cast<char>(shape.size())};
  std::size_t count = 1;
  for (const std::size_t size : shape) {
    file += std::string{'\0', '\0', '\0', static_cast<char>(size)};
    count *= size;
  }
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1'664'525U + 1'013'904'223U;
    file += static_cast<char>((seed >> 16) % bound);
  }
  return file;
}

// The values of an NPY file of float32.
std::vector<float> ValuesOf(const std::string& npy) {
  if (npy.size() < 10) return {};
  const std::size_t header =
      10 + static_cast<unsigned char>(npy[8]) + 256 * static_cast<unsigned char>(npy[9]);
  std::vector<float> values((npy.size() - header) / sizeof(float));
  std::memcpy(values.data(), npy.data() + header, values.size() * sizeof(float));
  return values;
}

struct Measured {
  double loss = 0;
  double accuracy = 0;
};

// The mean cross entropy in double. The labels are the last bytes of their file.
Measured Measure(const std::vector<float>& logits, const std::string& labels) {
  const std::size_t classes = logits.size() / kSamples;
  Measured measured;
  for (std::size_t s = 0; s < kSamples; ++s) {
    const float* const row = logits.data() + s * classes;
    const auto label = static_cast<std::size_t>(labels[labels.size() - kSamples + s]);
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(double{row[c]});
    measured.loss += (std::log(sum) - double{row[label]}) / kSamples;
    const auto best = static_cast<std::size_t>(std::max_element(row, row + classes) - row);
    measured.accuracy += (best == label ? 1.0 : 0.0) / kSamples;
  }
  return measured;
}

class Predict : public ::testing::Test {
 protected:
  // Trains on the files "x" and "y" and on those in `data`; "x" and "y" are the test data, too.
  Result Train(const std::string& model, const std::string& data) {
    const std::string job = folder_.Write(
        "job.toml", "[model]\n" + model + "[data]\n" + data + "[train]\nbatch = 8\nsteps = 5\n");
    return RunAcan({"train", job, "--handlers", "2xcpu:1@16MiB", "--out", out_});
  }
  Result Compute(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"predict", out_, "--inputs", folder_ / "x",
                                          "--out",   npy_, "--memory", "1GiB"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunAcan(arguments);
  }
  void ExpectMeasured(const std::string& labels) const {
    const std::vector<float> logits = ValuesOf(ReadFile(npy_));
    ASSERT_EQ(logits.size(), kSamples * 3);
    const Measured measured = Measure(logits, labels);
    const nlohmann::json receipt = nlohmann::json::parse(ReadFile(out_ + "/receipt.json"));
    EXPECT_NEAR(measured.loss, receipt.at("test_loss").get<double>(), 1e-6 * measured.loss);
    EXPECT_NEAR(measured.accuracy, receipt.at("test_accuracy").get<double>(), 1e-9);
  }

  const TestFolder folder_;
  const std::string out_ = folder_ / "out";
  const std::string npy_ = folder_ / "logits.npy";
};

constexpr const char* kSampleFiles =
    "train_inputs = \"x\"\ntrain_labels = \"y\"\ntest_inputs = \"x\"\ntest_labels = \"y\"\n";

struct Kind {
  const char* name;
  const char* keys;
};

class PredictKinds : public Predict, public ::testing::WithParamInterface<Kind> {};

TEST_P(PredictKinds, GivesTheLogitsOfTheTestLoss) {
  const std::string labels = Bytes({kSamples}, 3, 1);
  folder_.Write("x", Bytes({kSamples, 9, 9}, 256, 2));
  folder_.Write("y", labels);
  const Result trained = Train(GetParam().keys, kSampleFiles);
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Result computed = Compute();
  ASSERT_EQ(computed.code, 0) << computed.err;
  EXPECT_EQ(computed.out, "wrote " + npy_ + " [24, 3]\n");
  ExpectMeasured(labels);
  // The same bits on another device.
  const std::string first = ReadFile(npy_);
  ASSERT_EQ(Compute({"--device", "cpu:1"}).code, 0);
  EXPECT_EQ(ReadFile(npy_), first);
}

INSTANTIATE_TEST_SUITE_P(Models, PredictKinds,
                         ::testing::Values(Kind{"mlp", R"(layers = [81, 12, 3]
)"},
                                           Kind{"resnet", R"(kind = "resnet"
image_size = 9
channels = 1
widths = [8, 16]
blocks = [1, 1]
stem = "small"
num_classes = 3
)"},
                                           Kind{"vit", R"(kind = "vit"
image_size = 9
channels = 1
patch_size = 3
num_layers = 1
num_heads = 2
hidden_dim = 8
mlp_dim = 8
num_classes = 3
)"},
                                           Kind{"convnext", R"(kind = "convnext"
image_size = 9
channels = 1
patch_size = 3
widths = [8]
blocks = [2]
num_classes = 3
)"}),
                         [](const auto& of) { return std::string(of.param.name); });

TEST_F(Predict, TakesTheLengthsOfSequences) {
  const std::string labels = Bytes({kSamples}, 3, 1);
  folder_.Write("x", Bytes({kSamples, 5}, 16, 2));
  folder_.Write("y", labels);
  std::string lengths = Bytes({kSamples}, 5, 3);
  std::for_each(lengths.end() - kSamples, lengths.end(), [](char& length) { ++length; });
  folder_.Write("lengths", lengths);
  const Result trained = Train(R"(kind = "bert"
task = "classification"
num_labels = 3
vocab_size = 16
hidden_size = 8
intermediate_size = 8
num_hidden_layers = 1
num_attention_heads = 2
max_position_embeddings = 5
)",
                               R"(train_tokens = "x"
train_labels = "y"
train_lengths = "lengths"
test_tokens = "x"
test_labels = "y"
test_lengths = "lengths"
)");
  ASSERT_EQ(trained.code, 0) << trained.err;
  // All positions would count, so the outputs would depend on the padding.
  const Result refused = Compute();
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("--lengths: the run was trained with data.train_lengths"));
  EXPECT_EQ(ReadFile(npy_), "");
  const Result computed = Compute({"--lengths", folder_ / "lengths"});
  ASSERT_EQ(computed.code, 0) << computed.err;
  ExpectMeasured(labels);
}

// The mean of the squared differences from the targets is the test loss.
TEST_F(Predict, GivesTheValuesOfARegression) {
  std::string inputs, targets;
  for (std::size_t s = 0; s < kSamples; ++s) {
    inputs += std::to_string(0.1 * static_cast<double>(s)) + ",0.5\n";
    targets += std::to_string(0.01 * static_cast<double>(s * s)) + "\n";
  }
  folder_.Write("x", inputs);
  folder_.Write("y", targets);
  const Result trained = Train("layers = [2, 8, 1]\nloss = \"mse\"\n",
                               "train_inputs = \"x\"\ntrain_targets = \"y\"\n"
                               "test_inputs = \"x\"\ntest_targets = \"y\"\n");
  ASSERT_EQ(trained.code, 0) << trained.err;
  ASSERT_EQ(Compute().code, 0);
  const std::vector<float> outputs = ValuesOf(ReadFile(npy_));
  ASSERT_EQ(outputs.size(), kSamples);
  double loss = 0;
  for (std::size_t s = 0; s < kSamples; ++s) {
    loss += std::pow(double{outputs[s]} - 0.01 * static_cast<double>(s * s), 2) / kSamples;
  }
  const nlohmann::json receipt = nlohmann::json::parse(ReadFile(out_ + "/receipt.json"));
  EXPECT_NEAR(loss, receipt.at("test_loss").get<double>(), 1e-5 * loss);
}

TEST_F(Predict, RefusesFilesThatDoNotFit) {
  folder_.Write("x", Bytes({kSamples, 9, 9}, 256, 2));
  folder_.Write("y", Bytes({kSamples}, 3, 1));
  ASSERT_EQ(Train("layers = [81, 12, 3]\n", kSampleFiles).code, 0);
  const auto expect_refused = [this](const std::vector<std::string>& more, const char* why) {
    const Result refused = Compute(more);
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(why));
    EXPECT_EQ(ReadFile(npy_), "");
  };
  expect_refused({"--lengths", folder_ / "y"}, "lengths and token types belong to sequences");
  expect_refused({"--output", "hidden"}, "it has outputs");
  const std::string inputs = ReadFile(folder_ / "x");
  const Result replaced =
      RunAcan({"predict", out_, "--inputs", folder_ / "x", "--out", folder_ / "x"});
  EXPECT_EQ(replaced.code, 2);
  EXPECT_THAT(replaced.err, HasSubstr("is the input file"));
  EXPECT_EQ(ReadFile(folder_ / "x"), inputs);
  const std::string weights = ReadFile(out_ + "/model.safetensors");
  for (const char* name : {"/model.safetensors", "/receipt.json"}) {
    const Result own = RunAcan({"predict", out_, "--inputs", folder_ / "x", "--out", out_ + name});
    EXPECT_EQ(own.code, 2);
    EXPECT_THAT(own.err, HasSubstr("is the input file"));
  }
  EXPECT_EQ(ReadFile(out_ + "/model.safetensors"), weights);
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const Result pipe =
      RunAcan({"predict", out_, "--inputs", folder_ / "x", "--out", folder_ / "pipe"});
  EXPECT_EQ(pipe.code, 2);
  EXPECT_THAT(pipe.err, HasSubstr("is not a file"));
  folder_.Write("x", Bytes({kSamples, 9}, 256, 2));
  expect_refused({}, "but the model takes 81");
}

}  // namespace
}  // namespace acan::testing
