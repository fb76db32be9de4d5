// The sets of handlers for which plans are compared if some are far slower than others.
#include "acan/manager/speed_sets.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

namespace acan {
namespace {

using SomeHandlers = std::map<std::string, Capacity>;

SomeHandlers HandlersAt(std::initializer_list<double> gflops) {
  SomeHandlers handlers;
  for (const double each : gflops) {
    Capacity& capacity = handlers["id" + std::to_string(handlers.size())];
    capacity.gflops = each;
  }
  return handlers;
}

std::vector<std::size_t> SizesOfSets(const SomeHandlers& handlers) {
  std::vector<std::size_t> sizes;
  for (const SomeHandlers& set : SetsBySpeed(handlers)) sizes.push_back(set.size());
  return sizes;
}

using SetSizes = std::vector<std::size_t>;

TEST(SpeedSetsTest, HandlersOfSimilarSpeedAreOneSet) {
  EXPECT_EQ(SizesOfSets(HandlersAt({100})), SetSizes{1});
  EXPECT_EQ(SizesOfSets(HandlersAt({100, 60, 26})), SetSizes{3});
  EXPECT_EQ(SizesOfSets(HandlersAt({0, 0})), SetSizes{2}) << "their speeds are not known";
}

TEST(SpeedSetsTest, TheFastestComeFirst) {
  const std::vector<SomeHandlers> sets = SetsBySpeed(HandlersAt({1, 100, 20, 90, 0.001}));
  ASSERT_EQ(sets.size(), 4u);
  EXPECT_TRUE(sets[0].contains("id1"));
  EXPECT_TRUE(sets[0].contains("id3"));
  EXPECT_EQ(sets[0].size(), 2u);
  EXPECT_TRUE(sets[1].contains("id2"));
  EXPECT_TRUE(sets[2].contains("id0"));
  EXPECT_TRUE(sets[3].contains("id4"));
}

TEST(SpeedSetsTest, ThereAreFewSetsForAllSpeeds) {
  EXPECT_EQ(SizesOfSets(HandlersAt({1e6, 1e5, 1e4, 1e3, 100, 10, 1})).size(), 4u);
  EXPECT_EQ(SizesOfSets(HandlersAt({1e6, 1e5, 1e4, 1e3, 100, 10, 1})).back(), 7u);
}

// It may be throttled by a game that somebody plays.
TEST(SpeedSetsTest, AHandlerThatHasBecomeSlowIsSlow) {
  SomeHandlers handlers = HandlersAt({100, 100});
  handlers["id1"].speed = 0.1;
  EXPECT_EQ(SizesOfSets(handlers), (SetSizes{1, 2}));
  handlers["id1"].speed = 3;
  EXPECT_EQ(SizesOfSets(handlers), SetSizes{2})
      << "the other one may also be faster than it measured";
}

// They measured at the same time, on the same cores.
TEST(SpeedSetsTest, TheBestMeasurementOfOneKindCounts) {
  SomeHandlers handlers = HandlersAt({100, 20});
  for (auto& [id, capacity] : handlers) {
    capacity.machine = "m";
    capacity.device = "cpu:1";
    capacity.busy_cpus = 1;
  }
  EXPECT_EQ(SizesOfSets(handlers), SetSizes{2});
  handlers["id1"].device = "opencl:0";
  EXPECT_EQ(SizesOfSets(handlers), (SetSizes{1, 2}));
}

constexpr double kCannot = std::numeric_limits<double>::infinity();

std::size_t BestSetOf(const SomeHandlers& handlers, const std::vector<double>& step_us) {
  return BestSet(SetsBySpeed(handlers), [&](std::size_t i) { return step_us.at(i); });
}

TEST(SpeedSetsTest, SlowerHandlersMustMakeAStepShorter) {
  const SomeHandlers handlers = HandlersAt({100, 20, 20});
  EXPECT_EQ(BestSetOf(handlers, {1000, 850}), 1u);
  EXPECT_EQ(BestSetOf(handlers, {1000, 950}), 0u) << "that may be the estimate's error";
  EXPECT_EQ(BestSetOf(handlers, {1000, 2000}), 0u);
}

TEST(SpeedSetsTest, WhatAddsNoSpeedIsNotEstimated) {
  EXPECT_EQ(BestSetOf(HandlersAt({100, 5}), {1000}), 0u);
}

TEST(SpeedSetsTest, ASetThatCannotRunTheStepIsNotTaken) {
  EXPECT_EQ(BestSetOf(HandlersAt({100, 5}), {kCannot, 9e9}), 1u);
  EXPECT_EQ(BestSetOf(HandlersAt({100, 5}), {kCannot, kCannot}), 1u);
}

}  // namespace
}  // namespace acan
