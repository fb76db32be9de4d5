// Which steps an audit log lacks.
#include "acan/manager/logged_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "acan/core/tuple_kinds.h"
#include "nlohmann/json.hpp"
#include "tuplespace/key.h"

namespace acan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A version has two tiles, [0, 4) x [0, 3) and [4, 6) x [0, 3).
class LoggedStepsTest : public ::testing::Test {
 protected:
  void Begin(const std::string& run, std::int64_t steps, const std::string& job = "job") {
    steps_.On(nlohmann::json{
        {"what", "begin"}, {"job", job}, {"run", run}, {"version", steps}, {"audit", 0}}
                  .dump());
  }
  void Result(const tuplespace::Key& key) {
    steps_.On(nlohmann::json{
        {"what", "result"},
        {"key", key.ToString()},
        {"hash", nullptr},
        {"handler", R"("what":"begin")"},
        {"time_us",
         1}}.dump());
  }
  void Tile(const std::string& run, std::int64_t version, std::int64_t begin, std::int64_t end) {
    Result({run, version, WordOf(StepTuple::kTile), std::int64_t{7}, begin, end, std::int64_t{0},
            std::int64_t{3}});
  }
  // The results of all steps from the one that makes version `first` to the one that makes `last`.
  void Steps(const std::string& run, std::int64_t first, std::int64_t last) {
    for (std::int64_t version = first; version <= last; ++version) {
      Result({run, version - 1, WordOf(StepTuple::kLoss), std::int64_t{0}});
      Tile(run, version, 0, 4);
      Tile(run, version, 4, 6);
    }
  }
  void Done() { steps_.On(nlohmann::json{{"what", "done"}, {"time_us", 1}}.dump()); }

  LoggedSteps steps_{"job", 18};
};

TEST_F(LoggedStepsTest, LivesThatFollowEachOtherLeaveNoGap) {
  Begin("job-a", 0);
  Steps("job-a", 0, 10);
  Begin("job-b", 10);
  Steps("job-b", 11, 13);
  Begin("job-c", 5);
  Steps("job-c", 6, 20);
  Done();
  EXPECT_THAT(steps_.gaps(), IsEmpty());
  EXPECT_EQ(steps_.steps_of_done_run(), 0);
}

TEST_F(LoggedStepsTest, LivesThatDidNotNameTheLogLeaveGaps) {
  Begin("job-a", 30);
  Steps("job-a", 31, 40);
  Begin("job-b", 50);
  Begin("job-c", 51);
  Steps("job-c", 52, 60);
  Done();
  EXPECT_THAT(steps_.gaps(), ElementsAre(Range{0, 30}, Range{40, 50}, Range{50, 51}));
}

TEST_F(LoggedStepsTest, AStepOfWhichATileIsMissingIsNotInTheLog) {
  Begin("job-a", 0);
  Steps("job-a", 1, 10);
  Tile("job-a", 11, 0, 4);
  Tile("job-a", 11, 0, 4);  // it was lost, and computed again
  Begin("job-b", 11);
  EXPECT_THAT(steps_.gaps(), ElementsAre(Range{10, 11}));
}

TEST_F(LoggedStepsTest, ResultsOfOtherLivesAndEvaluationsDoNotCount) {
  Begin("job-a", 0);
  Steps("job-a", 1, 10);
  Steps("job-b", 11, 20);
  Result({"job-a", std::int64_t{20}, WordOf(StepTuple::kLoss), std::int64_t{1}});
  Result({"job-a", kFrozenVersion, WordOf(StepTuple::kFrozen), std::int64_t{7}, std::int64_t{0},
          std::int64_t{6}, std::int64_t{0}, std::int64_t{3}});
  Begin("other-a", 0, "other");
  Steps("other-a", 1, 20);
  Done();
  Begin("job-c", 20);
  EXPECT_THAT(steps_.gaps(), ElementsAre(Range{10, 20}));
  EXPECT_EQ(steps_.steps_of_done_run(), 0) << "the other job is done, not this one";
}

TEST_F(LoggedStepsTest, WhatIsRepeatedClosesGaps) {
  Begin("job-a", 0);
  Begin("job-b", 10);
  Steps("job-b", 11, 20);
  Begin("job-c", 30);
  Begin("job-d", 5);
  EXPECT_THAT(steps_.gaps(), ElementsAre(Range{0, 5}));
  Begin("job-e", 0);
  EXPECT_THAT(steps_.gaps(), IsEmpty());
}

// From the log alone, nobody can tell whether the later lives are of the run that was done.
TEST_F(LoggedStepsTest, ALifeAfterADoneRunMayBeOfAnotherRun) {
  Begin("job-a", 0);
  Steps("job-a", 1, 20);
  Done();
  Begin("job-b", 15);
  Steps("job-b", 16, 20);
  EXPECT_THAT(steps_.gaps(), IsEmpty());
  EXPECT_EQ(steps_.steps_of_done_run(), 15);
  Begin("job-c", 20);
  EXPECT_EQ(steps_.steps_of_done_run(), 15);
  Begin("job-d", 0);
  EXPECT_EQ(steps_.steps_of_done_run(), 0);
}

TEST(TileElementsTest, AreThoseOfAllParametersThatAreNotFrozen) {
  EXPECT_EQ(TileElements(*BuildModel(Perceptron{{3, 4, 2}})), 3 * 4 + 4 + 4 * 2 + 2);
}

}  // namespace
}  // namespace acan
