// Draws follow the softmax, whose probabilities this test computes with libm.
#include "acan/generate/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "acan/core/error.h"

namespace acan {
namespace {

const std::vector<float> kOutputs = {1.5f, -0.5f, 3.0f, 3.0f, 0.0f, -40.0f};

// The share of each token among the draws at many positions.
std::vector<double> Shares(const Sampling& sampling, std::int64_t draws) {
  std::vector<double> shares(kOutputs.size());
  for (std::int64_t position = 0; position < draws; ++position) {
    ++shares[static_cast<std::size_t>(ChooseToken(kOutputs, sampling, position))];
  }
  for (double& share : shares) share /= static_cast<double>(draws);
  return shares;
}

TEST(SamplerTest, TemperatureZeroTakesTheFirstLargest) {
  EXPECT_EQ(ChooseToken(kOutputs, {.temperature = 0, .top_k = 0, .seed = 7}, 0), 2);
  EXPECT_EQ(ChooseToken(std::vector<float>{-1.0f}, {.temperature = 0}, 5), 0);
}

TEST(SamplerTest, SharesAreThoseOfTheSoftmax) {
  constexpr std::int64_t kDraws = 40'000;
  for (const double temperature : {0.5, 1.0, 3.0}) {
    std::vector<double> weights;
    double sum = 0;
    for (const float output : kOutputs) {
      weights.push_back(std::exp(static_cast<double>(output) / temperature));
      sum += weights.back();
    }
    const std::vector<double> shares =
        Shares({.temperature = temperature, .top_k = 0, .seed = 11}, kDraws);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const double p = weights[i] / sum;
      const double deviation = std::sqrt(p * (1 - p) / static_cast<double>(kDraws));
      EXPECT_NEAR(shares[i], p, 5 * deviation + 1e-12) << i << " at " << temperature;
    }
  }
}

// Among a thousand equal tokens, floor(1000 u) is drawn, where u are the upper 53 bits of words 0
// and 1 of Philox under the seed, for the position and the stream of sampling. These were computed
// with another implementation. A seed must give the same text with every version of acan.
TEST(SamplerTest, ASeedDrawsTheSameTokensForEver) {
  const std::vector<std::int32_t> tokens = {672, 919, 549, 434, 402, 744, 392, 425, 498, 299, 122,
                                            561, 209, 543, 953, 976, 265, 392, 153, 574, 900, 270,
                                            370, 300, 732, 131, 381, 721, 0,   90,  13,  212};
  std::vector<std::int32_t> drawn;
  for (std::int64_t position = 0; position < std::ssize(tokens); ++position) {
    drawn.push_back(ChooseToken(std::vector<float>(1000, 0.25f),
                                {.temperature = 1, .top_k = 0, .seed = 11}, position));
  }
  EXPECT_EQ(drawn, tokens);
}

TEST(SamplerTest, TopKDrawsFromTheLargestOnly) {
  EXPECT_EQ(Shares({.temperature = 5, .top_k = 1, .seed = 1}, 1000)[2], 1.0);
  const std::vector<double> shares = Shares({.temperature = 5, .top_k = 3, .seed = 1}, 4000);
  EXPECT_EQ(shares[1] + shares[4] + shares[5], 0.0);
  EXPECT_GT(shares[0], 0.1);
  EXPECT_GT(shares[3], 0.1);
  // A top_k that is larger than the number of tokens.
  EXPECT_GT(Shares({.temperature = 5, .top_k = 100, .seed = 1}, 4000)[4], 0.05);
}

TEST(SamplerTest, TokensThatAVocabularyLacksAreNeverChosen) {
  EXPECT_EQ(ChooseToken(kOutputs, {.temperature = 0, .top_k = 0, .seed = 1, .tokens = 2}, 0), 0);
  const std::vector<double> shares =
      Shares({.temperature = 5, .top_k = 0, .seed = 1, .tokens = 2}, 1000);
  EXPECT_GT(shares[1], 0.1);
  EXPECT_EQ(shares[2] + shares[3] + shares[4] + shares[5], 0.0);
}

TEST(SamplerTest, HugeDifferencesAndTemperaturesAreFine) {
  const std::vector<float> far = {-3e38f, 3e38f, 0.0f};
  EXPECT_EQ(ChooseToken(far, {.temperature = 1, .top_k = 0, .seed = 1}, 3), 1);
  EXPECT_EQ(ChooseToken(far, {.temperature = 1e-300, .top_k = 0, .seed = 1}, 3), 1);
}

TEST(SamplerTest, OutputsThatAreNotFiniteAreNamed) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    try {
      ChooseToken(std::vector<float>{0.0f, bad}, {}, 9);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("output for token 1 at position 9"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace acan
