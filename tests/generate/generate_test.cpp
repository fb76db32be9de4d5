// Texts: the same seed gives the same text, and long texts are cropped as in nanoGPT.
#include "acan/generate/generate.h"

#include <set>
#include <span>

#include "decoder_fixture.h"

namespace acan::test {
namespace {

class GenerateTest : public ::testing::Test {
 protected:
  GenerateTest() : run_(folder_, SmallModels()[2].keys), decoder_(MakeDecoder()) {}

  Decoder MakeDecoder() const {
    return {MakeCpuDevice({.threads = 1, .memory_limit_bytes = 1ull << 28, .isa = {}}), run_.run()};
  }
  std::vector<std::int32_t> TextOf(const std::vector<std::int32_t>& prompt, std::int64_t count,
                                   const Sampling& sampling) {
    std::vector<std::int32_t> text;
    Generate(decoder_, prompt, count, sampling, [&text](std::int32_t token) {
      text.push_back(token);
      return true;
    });
    return text;
  }

  const TestFolder folder_;
  SmallRun run_;
  Decoder decoder_;
};

TEST_F(GenerateTest, TheSeedDecidesTheText) {
  const Sampling one{.temperature = 1, .top_k = 0, .seed = 1};
  const std::vector<std::int32_t> text = TextOf({1, 2}, 40, one);
  EXPECT_EQ(text.size(), 40u);
  EXPECT_EQ(TextOf({1, 2}, 40, one), text);
  EXPECT_NE(TextOf({1, 2}, 40, {.temperature = 1, .top_k = 0, .seed = 2}), text);
  // Continuing from a prefix gives the same text, because draws depend on the position in the text.
  std::vector<std::int32_t> prompt{1, 2};
  prompt.insert(prompt.end(), text.begin(), text.begin() + 11);
  EXPECT_EQ(TextOf(prompt, 29, one), std::vector<std::int32_t>(text.begin() + 11, text.end()));
}

TEST_F(GenerateTest, ALongTextIsCroppedToTheLastPositions) {
  constexpr std::int64_t kCount = 100;  // the model has 72 positions
  const Sampling sampling{.temperature = 0.8, .top_k = 5, .seed = 3};
  Decoder other = MakeDecoder();
  // Reads the last tokens anew for each token.
  const auto continued = [&](const std::vector<std::int32_t>& prompt, std::int64_t count) {
    std::vector<std::int32_t> whole = prompt;
    for (std::int64_t i = 0; i < count; ++i) {
      std::span<const std::int32_t> last(whole);
      last = last.last(std::min<std::size_t>(whole.size(), 72));
      other.Clear();
      whole.push_back(ChooseToken(other.Read(last), sampling, std::ssize(whole)));
    }
    return std::vector<std::int32_t>(whole.begin() + std::ssize(prompt), whole.end());
  };
  std::vector<std::int32_t> whole{4, 8};
  const std::vector<std::int32_t> text = TextOf(whole, kCount, sampling);
  EXPECT_EQ(text, continued(whole, kCount));
  // A prompt longer than the model's positions: only its last tokens count.
  whole.insert(whole.end(), text.begin(), text.end());
  EXPECT_EQ(TextOf(whole, 3, sampling), continued(whole, 3));
}

TEST_F(GenerateTest, EndsWhereItsTakerSaysSo) {
  const Sampling sampling{.temperature = 1, .top_k = 0, .seed = 1};
  const std::vector<std::int32_t> whole = TextOf({1, 2}, 20, sampling);
  std::vector<std::int32_t> taken;
  Generate(decoder_, {1, 2}, 20, sampling, [&taken](std::int32_t token) {
    taken.push_back(token);
    return taken.size() < 7;
  });
  EXPECT_EQ(taken, std::vector<std::int32_t>(whole.begin(), whole.begin() + 7));
}

TEST_F(GenerateTest, PromptsThatTheModelCannotReadAreRefused) {
  const auto refused = [&](const std::vector<std::int32_t>& prompt) -> std::string {
    try {
      TextOf(prompt, 1, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refused({}).find("the prompt is empty"), std::string::npos);
  EXPECT_NE(refused({3, 83}).find("token 1 is 83, but the model has 83: expected 0 to 82"),
            std::string::npos);
  EXPECT_NE(refused({-1}).find("token 0 is -1"), std::string::npos);
}

}  // namespace
}  // namespace acan::test
