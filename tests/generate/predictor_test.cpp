// The predictor, compared bit for bit with whole evaluation passes on every device.
#include "acan/generate/predictor.h"

#include <algorithm>
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
  if (IsFakeGpu(device) && device.name != "cuda") {
    GTEST_SKIP() << "takes minutes on a fake GPU, needs a real one";
  }
  const TestFolder folder;
  SmallRun run(folder, model.keys);
  const std::unique_ptr<ModelReader> weights = run.run().OpenWeights();
  const Predictor predictor(device.make(1, kPredictorLimit), run.graph(), *weights, "logits");
  EXPECT_EQ(predictor.rows(), model.positions);
  const std::vector<std::int32_t> tokens =
      SomeTokens(kSamples * model.positions, predictor.features());
  const std::vector<std::vector<float>> expected = run.WholePass(tokens);
  const TokenSamples samples(tokens, model.positions);
  for (std::int64_t s = 0; s < kSamples; ++s) {
    EXPECT_EQ(predictor.Predict(samples, s), expected[static_cast<std::size_t>(s)]);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PredictorTest,
                         ::testing::Combine(::testing::ValuesIn(ProductTestDevices()),
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
    const Predictor predictor(
        MakeCpuDevice({.threads = 1, .memory_limit_bytes = kPredictorLimit, .isa = {}}),
        run.graph(), *weights, "logits", training);
    return predictor.Predict(TokenSamples(tokens, model.positions), 0);
  };
  const std::vector<float> expected = run.WholePass(tokens).front();
  EXPECT_EQ(logits(run.run().job.training), expected);
  EXPECT_NE(logits(Training()), expected);
}

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
