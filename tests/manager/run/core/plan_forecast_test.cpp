// Plans for handlers that differ, and what acan plan says about them.
#include "acan/manager/plan_forecast.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <vector>

#include "acan/manager/trained_model.h"

namespace acan {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kMebibyte = 1 << 20;

ManagerConfig ForecastJob(std::vector<std::int64_t> layers) {
  ManagerConfig config;
  config.model = BuildModel(Perceptron{std::move(layers)});
  config.training.batch = 64;
  config.run = "run";
  config.train_samples = 6400;
  config.least_removed_bytes = 256 << 10;
  return config;
}

std::vector<Capacity> EqualHandlers(int count, std::uint64_t memory_bytes) {
  Capacity capacity;
  capacity.memory_bytes = capacity.limit_bytes = memory_bytes;
  capacity.gflops = 50;
  capacity.exact = true;
  return std::vector<Capacity>(static_cast<std::size_t>(count), capacity);
}

std::vector<Capacity> operator+(std::vector<Capacity> left, const std::vector<Capacity>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

std::vector<Capacity> OverLinks(std::vector<Capacity> handlers, std::uint32_t link_ns_per_kib) {
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    handlers[i].bytes_travel = true;
    handlers[i].host = "host " + std::to_string(i);
    handlers[i].link_ns_per_kib = link_ns_per_kib;
    handlers[i].link_round_trip_us = 200;
  }
  return handlers;
}

constexpr std::uint32_t kOneMbit = 8'192'000;

// The small ones are more than a quarter, so tasks would be cut for their memory.
TEST(PlanForecastTest, SmallHandlersDoNotMakeAPlanWorse) {
  const ManagerConfig job = ForecastJob({256, 1024, 1024, 10});
  const double alone_us = ForecastPlan(job, EqualHandlers(8, 1024 * kMebibyte)).plan.step_us;
  for (const int small : {1, 3, 6}) {
    const std::vector<Capacity> handlers =
        EqualHandlers(8, 1024 * kMebibyte) + EqualHandlers(small, kMebibyte / 8);
    const PlanForecast forecast = ForecastPlan(job, handlers);
    EXPECT_LE(forecast.plan.step_us, alone_us) << small;
    EXPECT_LE(forecast.step_us, 1.001 * alone_us) << small;
    EXPECT_GT(forecast.plan.largest_need_bytes, kMebibyte / 8);
  }
}

// Each step would wait for it.
TEST(PlanForecastTest, AFarSlowerHandlerIsASpare) {
  const ManagerConfig job = ForecastJob({256, 1024, 1024, 10});
  std::vector<Capacity> handlers = EqualHandlers(3, 1024 * kMebibyte);
  const PlanForecast alone = ForecastPlan(job, {handlers[0], handlers[2]});
  handlers[1].gflops = 0.05;
  const PlanForecast forecast = ForecastPlan(job, handlers);
  EXPECT_EQ(forecast.plan.summary, alone.plan.summary);
  EXPECT_DOUBLE_EQ(forecast.step_us, alone.step_us);
  EXPECT_EQ(forecast.workers, 2);
  ASSERT_EQ(forecast.handlers.size(), 3u);
  EXPECT_FALSE(forecast.handlers[0].is_spare);
  EXPECT_TRUE(forecast.handlers[1].is_spare);
  EXPECT_FALSE(forecast.handlers[2].is_spare);
}

// Many small handlers are faster than few large ones.
TEST(PlanForecastTest, ManySmallHandlersArePreferredToFewLargeOnes) {
  const ManagerConfig job = ForecastJob({256, 1024, 1024, 10});
  std::vector<Capacity> handlers =
      EqualHandlers(1, 1024 * kMebibyte) + EqualHandlers(15, 8 * kMebibyte);
  for (Capacity& capacity : handlers) capacity.gflops = 1;
  const PlanForecast forecast = ForecastPlan(job, handlers);
  EXPECT_LE(forecast.plan.largest_need_bytes, 8 * kMebibyte);
}

// No plan fits into 1 KiB. The plan is not cut for the largest handler alone.
TEST(PlanForecastTest, SizesBetweenTheLargestAndTheSmallestAreTried) {
  const ManagerConfig job = ForecastJob({256, 1024, 1024, 10});
  std::vector<Capacity> handlers = EqualHandlers(1, 1024 * kMebibyte) +
                                   EqualHandlers(4, kMebibyte / 2) + EqualHandlers(20, 1024);
  for (Capacity& capacity : handlers) capacity.gflops = 1;
  const PlanForecast forecast = ForecastPlan(job, handlers);
  EXPECT_LE(forecast.plan.largest_need_bytes, kMebibyte / 2);
}

// Tasks that only one handler has memory for take that handler's time.
TEST(PlanForecastTest, AStageTakesTheTimeOfTheHandlersWithMemoryForIt) {
  const ManagerConfig job = ForecastJob({256, 1024, 1024, 10});
  std::vector<Capacity> handlers = EqualHandlers(1, 1024 * kMebibyte) + EqualHandlers(20, 1024);
  for (Capacity& capacity : handlers) capacity.gflops = 1;
  const PlanForecast forecast = ForecastPlan(job, handlers);
  double gflop = 0;
  for (const StageForecast& stage : forecast.stages) gflop += stage.gflop;
  EXPECT_GE(forecast.step_us, 0.99e6 * gflop);
  EXPECT_EQ(forecast.handlers.back().tasks_that_fit, 0);
}

TEST(PlanForecastTest, OneHandlerMoreThanCanBePlacedDoesNotHideTheLinks) {
  const ManagerConfig job = ForecastJob({128, 512, 512, 128});
  const PlanForecast of_64 =
      ForecastPlan(job, OverLinks(EqualHandlers(64, 16 * kMebibyte), kOneMbit));
  const PlanForecast of_65 =
      ForecastPlan(job, OverLinks(EqualHandlers(65, 16 * kMebibyte), kOneMbit));
  EXPECT_EQ(of_65.unplaced, "");
  EXPECT_EQ(of_65.hosts.size(), 65u);
  EXPECT_EQ(of_65.hosts.back().tasks, 0);
  EXPECT_EQ(of_65.handlers_to_place, 64u);
  EXPECT_DOUBLE_EQ(of_65.step_us, of_64.step_us);
  EXPECT_DOUBLE_EQ(of_64.step_us_with_one_more, of_64.step_us);
}

TEST(PlanForecastTest, TheTimeOfTasksThatCannotBePlacedIncludesTheLinks) {
  const ManagerConfig job = ForecastJob({256, 1024, 1024, 10});
  const PlanForecast forecast = ForecastPlan(job, OverLinks(EqualHandlers(4, kMebibyte), kOneMbit));
  EXPECT_THAT(forecast.unplaced, HasSubstr("too little memory to keep the weights"));
  EXPECT_GT(forecast.step_us, 8'000 * static_cast<double>(forecast.moved_bytes) / 1024);
  EXPECT_EQ(forecast.step_us_with_one_more, 0);
  EXPECT_TRUE(forecast.hosts.empty());
}

TEST(PlanForecastTest, OneHostOverALinkIsPlaced) {
  const ManagerConfig job = ForecastJob({256, 1024, 1024, 10});
  const PlanForecast forecast =
      ForecastPlan(job, OverLinks(EqualHandlers(1, 64 * kMebibyte), kOneMbit));
  EXPECT_EQ(forecast.unplaced, "");
  ASSERT_EQ(forecast.hosts.size(), 1u);
  EXPECT_EQ(forecast.hosts[0].tasks, forecast.tasks);
  EXPECT_GT(forecast.hosts[0].load.in_bytes, 64u * 256 * 4) << "the samples of a step";
  EXPECT_GT(forecast.step_us, 8'000 * 64 * 256 * 4 / 1024);
  EXPECT_GT(forecast.step_us_with_one_more, 0);
}

}  // namespace
}  // namespace acan
