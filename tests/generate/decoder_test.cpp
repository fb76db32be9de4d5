// The decoder, compared bit for bit with whole evaluation passes on every device, and with the
// float64 interpreter of graphs.
#include "acan/generate/decoder.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>

#include "decoder_fixture.h"
#include "reference.h"
#include "test_devices.h"

namespace acan::test {
namespace {

constexpr std::uint64_t kDecoderLimit = 1ull << 30;

class DecoderTest : public ::testing::TestWithParam<std::tuple<TestDevice, SmallModel>> {};

TEST_P(DecoderTest, LogitsOfEachPositionAreThoseOfAWholePass) {
  const auto& [device, model] = GetParam();
  ACAN_SKIP_WITHOUT(device);
  const TestFolder folder;
  SmallRun run(folder, model.keys);
  Decoder decoder(device.make(1, kDecoderLimit), run.run());
  ASSERT_EQ(decoder.positions(), model.positions);
  const auto positions = static_cast<std::size_t>(model.positions);
  const auto width = static_cast<std::size_t>(decoder.vocabulary_size());
  const std::vector<std::int32_t> tokens =
      SomeTokens(kSamples * model.positions, decoder.vocabulary_size());
  const std::vector<std::vector<float>> expected = run.WholePass(tokens);
  for (std::size_t s = 0; s < kSamples; ++s) {
    const auto of_sample = std::span<const std::int32_t>(tokens).subspan(s * positions, positions);
    ASSERT_EQ(expected[s].size(), positions * width);
    const auto row = [&expected, s, width](std::size_t p) {
      const auto first = expected[s].begin() + static_cast<std::ptrdiff_t>(p * width);
      return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(width));
    };
    // All at once.
    decoder.Clear();
    EXPECT_EQ(decoder.Read(of_sample), row(positions - 1));
    EXPECT_EQ(decoder.length(), model.positions);
    // Token by token, from the cached keys and values. A fake GPU is slow, so of long samples it
    // gets only the tokens around the end of a leaf of keys one by one.
    const bool is_short = !IsFakeGpu(device) || positions <= 64;
    const std::size_t begin = is_short ? 0 : 60, end = is_short ? positions : 70;
    decoder.Clear();
    if (begin > 0) {
      ASSERT_EQ(decoder.Read(of_sample.first(begin)), row(begin - 1));
    }
    for (std::size_t p = begin; p < end; ++p) {
      ASSERT_EQ(decoder.Read(of_sample.subspan(p, 1)), row(p)) << "position " << p;
    }
    // In chunks that do not match leaves.
    decoder.Clear();
    for (std::size_t p = 0; p < positions;) {
      const std::size_t count = std::min<std::size_t>(positions - p, 1 + p % 37 * 2);
      p += count;
      ASSERT_EQ(decoder.Read(of_sample.subspan(p - count, count)), row(p - 1)) << "position " << p;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DecoderTest,
                         ::testing::Combine(::testing::ValuesIn(ModelTestDevices()),
                                            ::testing::ValuesIn(SmallModels())),
                         [](const auto& of) {
                           return std::get<0>(of.param).name + "_" + std::get<1>(of.param).name;
                         });

class DecodedTest : public ::testing::TestWithParam<SmallModel> {};

TEST_P(DecodedTest, IsNearTheDefinition) {
  const TestFolder folder;
  SmallRun run(folder, GetParam().keys);
  Decoder decoder(MakeCpuDevice({.threads = 2, .memory_limit_bytes = kDecoderLimit, .isa = {}}),
                  run.run());
  const std::vector<std::int32_t> tokens =
      SomeTokens(GetParam().positions, decoder.vocabulary_size());
  model::Reference reference(run.graph(), {1, 1, 0});
  model::Matrix words(std::ssize(tokens), 1);
  std::copy(tokens.begin(), tokens.end(), words.values.begin());
  for (const model::Input& input : run.graph().inputs()) reference.Set(input.value, words);
  for (std::int32_t p = 0; p < std::ssize(run.graph().parameters()); ++p) {
    const model::Parameter& parameter = run.graph().parameter(p);
    model::Matrix matrix(parameter.rows, parameter.columns);
    const std::vector<float> values = run.Weights(ParameterId{p});
    std::copy(values.begin(), values.end(), matrix.values.begin());
    reference.Set(run.graph().ValueOf(p), matrix);
  }
  reference.Run();
  const model::Matrix& expected = reference[run.LogitsValue()];
  double largest = 0;
  for (const double value : expected.values) largest = std::max(largest, std::fabs(value));
  std::vector<float> found;
  for (std::size_t p = 0; p < tokens.size(); ++p) {
    const std::vector<float> logits = decoder.Read(std::span(tokens).subspan(p, 1));
    found.insert(found.end(), logits.begin(), logits.end());
  }
  ASSERT_EQ(found.size(), expected.values.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(found[i]), expected.values[i], 1e-5 * largest) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DecodedTest, ::testing::ValuesIn(SmallModels()),
                         [](const auto& of) { return of.param.name; });

void ExpectRefused(const std::string& keys, const std::vector<std::string>& parts) {
  const TestFolder folder;
  SmallRun run(folder, keys);
  try {
    const Decoder decoder(
        MakeCpuDevice({.threads = 1, .memory_limit_bytes = kDecoderLimit, .isa = {}}), run.run());
    ADD_FAILURE() << keys << " was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    EXPECT_NE(std::string(error.what()).find(folder.path()), std::string::npos) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(DecoderMistakes, ModelsThatAreNotOfLanguageAreRefused) {
  ExpectRefused(
      "kind = \"vit\"\nimage_size = 8\nchannels = 1\npatch_size = 4\nnum_layers = 1\n"
      "num_heads = 1\nhidden_dim = 8\nmlp_dim = 8\nnum_classes = 3\n",
      {"kind \"vit\"", "takes \"images\"", "gpt, llama"});
  ExpectRefused(
      "kind = \"bert\"\ntask = \"masked_language\"\nvocab_size = 9\nhidden_size = 8\n"
      "num_hidden_layers = 1\nnum_attention_heads = 1\nintermediate_size = 8\n"
      "max_position_embeddings = 4\n",
      {"kind \"bert\"", "takes only tokens"});
}

TEST(DecoderMistakes, WeightsOfAnotherRunAreRefused) {
  const TestFolder folder;
  SmallRun run(folder, SmallModels()[1].keys);
  FinishedRun other = run.run();
  other.receipt.weights_sha256 = std::string(64, '0');
  try {
    const Decoder decoder(
        MakeCpuDevice({.threads = 1, .memory_limit_bytes = kDecoderLimit, .isa = {}}), other);
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("model.safetensors: its weights_sha256 is "),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace acan::test
