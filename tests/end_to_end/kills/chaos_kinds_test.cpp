// A GPT and a ResNet whose processes are killed: dropout, clipping and running statistics go on as
// if nothing had happened.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "golden_jobs.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "program.h"

namespace acan::testing {
namespace {

struct DisturbedKind {
  std::string job;   // the name of the golden job, which is trained for more steps
  std::string kill;  // what to kill
  int steps = 0;     // so many that the first fault comes before the end
};
void PrintTo(const DisturbedKind& kind, std::ostream* out) {
  *out << kind.job;
}

class ChaosOfKindsTest : public ::testing::TestWithParam<DisturbedKind> {};

// The first fault of this seed comes after less than 0.7 s.
TEST_P(ChaosOfKindsTest, EndsWithTheWeightsOfTheUndisturbedRun) {
  const TestFolder folder;
  const std::vector<GoldenJob> jobs = WriteGoldenJobs(folder);
  const auto job = std::find_if(jobs.begin(), jobs.end(),
                                [](const GoldenJob& each) { return each.name == GetParam().job; });
  ASSERT_NE(job, jobs.end());
  const Result result =
      RunAcan({"chaos", job->path, "--handlers", "2xcpu:1@4MiB", "--out", folder / "out", "--json",
               "--set", "train.steps=" + std::to_string(GetParam().steps), "--set",
               "train.learning_rate=0.002", "--set", "snapshots.every_steps=20", "--kill",
               GetParam().kill, "--every", "1s", "--seed", "6011"});
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(LastLine(result.out));
  EXPECT_TRUE(report["same_weights"].get<bool>());
  EXPECT_GE(report["steps_done"].get<int>(), GetParam().steps);
  EXPECT_FALSE(report["faults"].empty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, ChaosOfKindsTest,
                         ::testing::Values(DisturbedKind{"gpt", "handlers,manager,broker", 700},
                                           DisturbedKind{"resnet", "everything", 600}),
                         [](const auto& parameter) { return parameter.param.job; });

}  // namespace
}  // namespace acan::testing
