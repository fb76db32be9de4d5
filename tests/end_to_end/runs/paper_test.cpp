// The paper's setting: layers 1024 x 1024 and 1024 x 1, one sample a step, handlers of 64 KiB,
// whose tiles are 64 x 64.
#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "program.h"

namespace acan::testing {
namespace {

constexpr const char* kPaperJob = R"(
[model]
layers = [1024, 1024, 1]
loss = "mse"
[data]
generated = "regression"
samples = 4
[train]
batch = 1
epochs = 2
optimizer = "sgd"
learning_rate = 0.001
)";

TEST(Paper, TrainsWithHandlersThatHoldALittleOfTheModel) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", kPaperJob);
  const Result small =
      RunAcan({"train", job, "--handlers", "4xcpu:1@64KiB", "--out", folder / "small", "--json"});
  ASSERT_EQ(small.code, 0) << small.err;
  const nlohmann::json receipt = nlohmann::json::parse(LastLine(small.out));
  EXPECT_EQ(receipt["steps"], 8);
  // A handler that starts slowly may find the job done.
  EXPECT_LE(receipt["handlers"].size(), 4u);
  int peak_bytes = 0;
  for (const nlohmann::json& handler : receipt["handlers"]) {
    EXPECT_EQ(handler["capacity_bytes"], 65536);
    EXPECT_LE(handler["peak_bytes"].get<int>(), 65536);
    peak_bytes = std::max(peak_bytes, handler["peak_bytes"].get<int>());
  }
  EXPECT_GT(peak_bytes, 0);

  // The second epoch repeats the same four samples; their mean loss must be smaller then.
  std::vector<double> losses;
  std::istringstream lines(ReadFile(folder / "small/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json metrics = nlohmann::json::parse(line);
    if (metrics.contains("loss")) losses.push_back(metrics["loss"]);
  }
  ASSERT_EQ(losses.size(), 8u);
  EXPECT_LT(losses[4] + losses[5] + losses[6] + losses[7],
            losses[0] + losses[1] + losses[2] + losses[3]);

  const Result large =
      RunAcan({"train", job, "--handlers", "cpu:1@256MiB", "--out", folder / "large", "--json"});
  ASSERT_EQ(large.code, 0) << large.err;
  EXPECT_EQ(nlohmann::json::parse(LastLine(large.out))["weights_sha256"],
            receipt["weights_sha256"]);
}

}  // namespace
}  // namespace acan::testing
