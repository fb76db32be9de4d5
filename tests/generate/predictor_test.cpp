// The predictor, compared bit for bit with whole evaluation passes on every device.
#include "acan/generate/predictor.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <tuple>

#include "acan/core/error.h"
#include "acan/manager/load_data.h"
#include "decoder_fixture.h"
#include "test_devices.h"

namespace acan::test {
namespace {

constexpr std::uint64_t kPredictorLimit = 1ull << 30;

// Sequences of tokens; the tests need no other inputs.
class TokenSamples final : public SampleSet {
 public:
  TokenSamples(std::vector<std::int32_t> tokens, std::int64_t positions)
      : tokens_(std::move(tokens)), positions_(positions) {}
  std::int64_t samples() const override { return std::ssize(tokens_) / positions_; }
  const std::string& sha256() const override { return sha256_; }
  const std::vector<WantedInput>& inputs() const override { return inputs_; }
  void Copy(const SamplePart& part, std::span<std::uint32_t> out) const override {
    ASSERT_EQ(part.input, "tokens");
    const std::int64_t first = part.sample * positions_ + part.positions.begin;
    std::copy_n(tokens_.begin() + first, out.size(), out.begin());
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::int64_t positions_ = 0;
  std::string sha256_;
  std::vector<WantedInput> inputs_;
};

class PredictorTest : public ::testing::TestWithParam<std::tuple<TestDevice, SmallModel>> {};

TEST_P(PredictorTest, GivesTheLogitsOfAWholePass) {
  const auto& [device, model] = GetParam();
  ACAN_SKIP_WITHOUT(device);
  const TestFolder folder;
  SmallRun run(folder, model.keys);
  const std::unique_ptr<ModelReader> weights = run.run().OpenWeights();
  Predictor predictor(device.make(1, kPredictorLimit), run.graph(), *weights, "logits");
  EXPECT_EQ(predictor.rows(), model.positions);
  const std::vector<std::int32_t> tokens =
      SomeTokens(kSamples * model.positions, predictor.features());
  const std::vector<std::vector<float>> expected = run.WholePass(tokens);
  const TokenSamples samples(tokens, model.positions);
  for (std::int64_t s = 0; s < kSamples; ++s) {
    EXPECT_EQ(predictor.Predict(samples, {s, s + 1}), expected[static_cast<std::size_t>(s)]);
  }
  std::vector<float> all;
  for (const std::vector<float>& of : expected) all.insert(all.end(), of.begin(), of.end());
  EXPECT_EQ(predictor.Predict(samples, {0, kSamples}), all);
}

INSTANTIATE_TEST_SUITE_P(Devices, PredictorTest,
                         ::testing::Combine(::testing::ValuesIn(ModelTestDevices()),
                                            ::testing::ValuesIn(SmallModels())),
                         [](const auto& of) {
                           return std::get<0>(of.param).name + "_" + std::get<1>(of.param).name;
                         });

TEST(PredictorOfABlock, SumsInTheOrderOfTheJob) {
  const TestFolder folder;
  const SmallModel& model = SmallModels().front();
  SmallRun run(folder, model.keys, "[train]\nblock = 16\n");
  const std::unique_ptr<ModelReader> weights = run.run().OpenWeights();
  const std::vector<std::int32_t> tokens =
      SomeTokens(kSamples * model.positions, run.graph().value(run.LogitsValue()).shape.features);
  const auto logits = [&](const Training& training) {
    Predictor predictor(
        MakeCpuDevice({.threads = 1, .memory_limit_bytes = kPredictorLimit, .isa = {}}),
        run.graph(), *weights, "logits", training);
    return predictor.Predict(TokenSamples(tokens, model.positions), {0, 1});
  };
  const std::vector<float> expected = run.WholePass(tokens).front();
  EXPECT_EQ(logits(run.run().job.training), expected);
  EXPECT_NE(logits(Training()), expected);
}

// Samples with arbitrary values for any inputs.
class ArbitrarySamples final : public SampleSet {
 public:
  explicit ArbitrarySamples(const model::Graph& graph) : inputs_(WantedInputs(graph)) {}
  std::int64_t samples() const override { return 65; }
  const std::string& sha256() const override { return sha256_; }
  const std::vector<WantedInput>& inputs() const override { return inputs_; }
  void Copy(const SamplePart& part, std::span<std::uint32_t> out) const override {
    const WantedInput& of = *FindInput(inputs_, part.input);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto drawn = static_cast<std::uint32_t>(part.sample * 31 + 1) *
                         (static_cast<std::uint32_t>(i) * 2654435761u + 40503u);
      const std::uint32_t value = drawn >> 16;
      if (of.role == model::InputRole::kNumbers) {
        out[i] = std::bit_cast<std::uint32_t>(static_cast<float>(value) / 65536.0f - 0.5f);
      } else {
        const bool is_length = of.role == model::InputRole::kLengths;
        out[i] = value % static_cast<std::uint32_t>(of.bound) + (is_length ? 1 : 0);
      }
    }
  }

 private:
  std::vector<WantedInput> inputs_;
  std::string sha256_;
};

struct BatchedModel {
  std::string name;
  std::string keys;  // of [model]
  std::string data;  // keys of [data]
};
void PrintTo(const BatchedModel& model, std::ostream* out) {
  *out << model.name;
}

const BatchedModel kBatchedModels[] = {
    {"mlp", "layers = [70, 130, 3]\n", "train_inputs = \"x\"\ntrain_labels = \"y\"\n"},
    {"resnet", R"(kind = "resnet"
image_size = [6, 5]
stem = "small"
widths = [4, 6]
blocks = [1, 1]
num_classes = 3
)",
     "train_inputs = \"x\"\ntrain_labels = \"y\"\n"},
    {"bert", R"(kind = "bert"
task = "classification"
num_labels = 3
num_hidden_layers = 1
num_attention_heads = 2
hidden_size = 16
intermediate_size = 24
max_position_embeddings = 70
vocab_size = 50
)",
     "train_tokens = \"x\"\ntrain_labels = \"y\"\ntrain_lengths = \"l\"\n"},
};

class PredictorOfManySamples : public ::testing::TestWithParam<BatchedModel> {
 protected:
  PredictorOfManySamples() : run_(folder_, GetParam().keys, "", GetParam().data) {}
  Predictor Make(std::uint64_t memory_limit) const {
    const std::string& output = run_.graph().outputs().front().name;
    return {MakeCpuDevice({.threads = 1, .memory_limit_bytes = memory_limit, .isa = {}}),
            run_.graph(), *run_.run().OpenWeights(), output};
  }
  // The outputs for all samples, computed one by one.
  static std::vector<float> OneByOne(Predictor& predictor, const SampleSet& samples) {
    std::vector<float> outputs;
    for (std::int64_t s = 0; s < samples.samples(); ++s) {
      const std::vector<float> one = predictor.Predict(samples, {s, s + 1});
      outputs.insert(outputs.end(), one.begin(), one.end());
    }
    return outputs;
  }

  const TestFolder folder_;
  const SmallRun run_;
};

TEST_P(PredictorOfManySamples, GivesTheBitsOfSingleSamples) {
  const ArbitrarySamples samples(run_.graph());
  Predictor predictor = Make(kPredictorLimit);
  EXPECT_EQ(predictor.samples_at_once(), 64);
  const std::vector<float> expected = OneByOne(predictor, samples);
  EXPECT_EQ(std::ssize(expected), samples.samples() * predictor.rows() * predictor.features());
  EXPECT_NE(expected.front(), expected.back());
  EXPECT_EQ(predictor.Predict(samples, {0, samples.samples()}), expected);
  EXPECT_EQ(predictor.samples_at_once(), 64) << "they fit";
}

TEST_P(PredictorOfManySamples, ComputesFewerAtOnceWithLittleMemory) {
  const ArbitrarySamples samples(run_.graph());
  Predictor roomy = Make(kPredictorLimit);
  const std::vector<float> expected = OneByOne(roomy, samples);
  // Raises the limit until one sample fits; then 64 do not.
  for (std::uint64_t limit = 4 << 10;; limit += 4 << 10) {
    ASSERT_LE(limit, kPredictorLimit);
    try {
      Predictor predictor = Make(limit);
      EXPECT_EQ(predictor.Predict(samples, {0, samples.samples()}), expected);
      EXPECT_LT(predictor.samples_at_once(), 64);
      return;
    } catch (const OutOfMemory&) {
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PredictorOfManySamples, ::testing::ValuesIn(kBatchedModels),
                         [](const auto& of) { return of.param.name; });

TEST(PredictorErrors, NameTheOutputsThatThereAre) {
  const TestFolder folder;
  SmallRun run(folder, SmallModels().front().keys);
  const std::unique_ptr<ModelReader> weights = run.run().OpenWeights();
  try {
    const Predictor predictor(
        MakeCpuDevice({.threads = 1, .memory_limit_bytes = kPredictorLimit, .isa = {}}),
        run.graph(), *weights, "embedding");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the model has no output \"embedding\"; it has logits");
  }
}

}  // namespace
}  // namespace acan::test
