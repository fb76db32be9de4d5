// docs/models.md trains the job of examples/resnet.toml, uses its model and trains it further. Here
// the same commands have a few images.
#include <cstdint>
#include <string>
#include <vector>

#include "data_files.h"
#include "gtest/gtest.h"
#include "ragged_job.h"

namespace acan::testing {
namespace {

class ResnetExample : public ::testing::Test {
 protected:
  ResnetExample() {
    constexpr std::uint32_t kImages = 12, kPixels = 28 * 28;
    std::string pixels, labels;
    for (std::uint32_t i = 0; i < kImages; ++i) {
      const std::uint32_t label = i % 10;
      labels.push_back(static_cast<char>(label));
      for (std::uint32_t p = 0; p < kPixels; ++p) {
        pixels.push_back(static_cast<char>(p / 80 == label ? 200 : (i * 31 + p * 17) % 97));
      }
    }
    folder_.Write("images", IdxFile({kImages, 28, 28}, pixels));
    folder_.Write("labels", IdxFile({kImages}, labels));
  }

  nlohmann::json TrainExample(const std::string& out, std::vector<std::string> words) const {
    for (const std::string set : {"train", "test"}) {
      for (const std::string what : {"inputs", "labels"}) {
        words.emplace_back("--set");
        words.push_back("data." + set + "_" + what + "=" +
                        (folder_ / (what == "inputs" ? "images" : "labels")));
      }
    }
    words.insert(words.end(), {"--set", "train.steps=3", "--set", "train.batch=4"});
    return Train(ACAN_EXAMPLES "/resnet.toml", folder_ / out, words);
  }

  const TestFolder folder_;
};

TEST_F(ResnetExample, IsTrainedEvaluatedAndComputed) {
  const nlohmann::json trained = TrainExample("out", {"--handlers", "cpu:1@64MiB"});
  ASSERT_TRUE(trained.is_object());
  EXPECT_TRUE(trained["test_accuracy"].is_number());
  const Result eval = RunAcan({"eval", folder_ / "out", "--handlers", "cpu:1@64MiB", "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_EQ(nlohmann::json::parse(LastLine(eval.out))["test_loss"], trained["test_loss"]);
  const std::string logits = folder_ / "logits.npy";
  const Result predicted = RunAcan({"predict", folder_ / "out", "--inputs", folder_ / "images",
                                    "--out", logits, "--memory", "1GiB"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_EQ(predicted.out, "wrote " + logits + " [12, 10]\n");
}

TEST_F(ResnetExample, IsFineTunedToTheSameBitsOnUnequalHandlers) {
  ASSERT_TRUE(TrainExample("out", {"--handlers", "cpu:1@64MiB"}).is_object());
  const auto fine_tune = [this](const std::string& out, const std::string& handlers) {
    return TrainExample(out,
                        {"--handlers", handlers, "--set",
                         "model.initial_weights=" + (folder_ / "out/model.safetensors"), "--set",
                         R"(train.freeze=["conv1.*", "bn1.*", "layer1.*", "layer2.*"])"});
  };
  const nlohmann::json alone = fine_tune("alone", "cpu:1@64MiB");
  const nlohmann::json unequal = fine_tune("unequal", "cpu:1@64MiB,cpu:1@4MiB");
  ASSERT_TRUE(alone.is_object() && unequal.is_object());
  EXPECT_EQ(unequal["weights_sha256"], alone["weights_sha256"]);
  EXPECT_EQ(unequal["test_loss"], alone["test_loss"]);
  const auto before = TensorsOfModelFile(folder_ / "out/model.safetensors");
  const auto after = TensorsOfModelFile(folder_ / "alone/model.safetensors");
  ASSERT_GT(before.size(), 0u);
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [name, bytes] : after) {
    // Steps change these in frozen layers, too.
    const bool is_statistic =
        name.find(".running_") != std::string::npos || name.ends_with(".num_batches_tracked");
    if (is_statistic) continue;
    const bool is_trained = name.starts_with("layer3.") || name.starts_with("fc.");
    EXPECT_EQ(bytes != before.at(name), is_trained) << name;
  }
}

}  // namespace
}  // namespace acan::testing
