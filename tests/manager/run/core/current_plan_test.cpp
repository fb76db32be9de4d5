// CurrentPlan: when its tasks are placed anew.
#include "acan/manager/current_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "manager_shell.h"

namespace acan {
namespace {

// One more than can be placed; "slow" is the one that is left out.
std::map<std::string, Capacity> MoreThanCanBePlaced() {
  Capacity capacity;
  capacity.memory_bytes = capacity.limit_bytes = 1 << 30;
  capacity.gflops = 100;
  capacity.exact = capacity.bytes_travel = true;
  capacity.link_ns_per_kib = capacity.link_round_trip_us = 1;
  std::map<std::string, Capacity> handlers;
  for (std::size_t i = 0; i <= kMaxPlacedHandlers; ++i) {
    capacity.name = capacity.host = "host " + std::to_string(i);
    handlers.emplace(i == 0 ? "slow" : "id" + std::to_string(i), capacity);
  }
  handlers.at("slow").gflops = 1;
  return handlers;
}

std::map<std::string, Capacity> SomeHandlers() {
  std::map<std::string, Capacity> handlers = MoreThanCanBePlaced();
  while (handlers.size() > 3) handlers.erase(handlers.begin());
  return handlers;
}

Plan PlanFor(const ManagerConfig& config, const CurrentPlan& cut) {
  PlanRequest request;
  request.model = cut.model();
  request.training = config.training;
  request.capacity_bytes = 1 << 30;
  return *MakePlan(request, nullptr);
}

// A placement takes about half a second, and handlers may come and go each second.
TEST(CurrentPlanTest, IsPlacedAnewOnlyIfOtherHandlersWouldGetTasks) {
  ManagerConfig config = SmallJob();
  config.knows_links = true;
  std::map<std::string, Capacity> handlers = MoreThanCanBePlaced();
  CurrentPlan cut(config);
  cut.Set(PlanFor(config, cut));
  cut.SetHandlers(handlers, 0);
  EXPECT_FALSE(cut.is_placed());
  cut.named();
  EXPECT_TRUE(cut.is_placed());

  handlers.at("slow").gflops = 2;
  cut.SetHandlers(handlers, 0);
  EXPECT_TRUE(cut.is_placed());
  handlers.erase("slow");
  cut.SetHandlers(handlers, 0);
  EXPECT_TRUE(cut.is_placed());

  handlers.at("id7").gflops = 50;
  cut.SetHandlers(handlers, 0);
  EXPECT_FALSE(cut.is_placed()) << "a handler with tasks became slower";
  cut.named();
  handlers.erase("id7");
  cut.SetHandlers(handlers, 0);
  EXPECT_FALSE(cut.is_placed()) << "a handler with tasks left";
  cut.named();
  cut.Set(PlanFor(config, cut));
  EXPECT_FALSE(cut.is_placed()) << "its tasks are others";
}

TEST(CurrentPlanTest, TextsForPeopleDoNotMatter) {
  ManagerConfig config = SmallJob();
  config.knows_links = true;
  std::map<std::string, Capacity> handlers = SomeHandlers();
  CurrentPlan cut(config);
  cut.Set(PlanFor(config, cut));
  cut.SetHandlers(handlers, 0);
  cut.named();
  Capacity& one = handlers.begin()->second;
  one.name = one.description = one.conformance_hash = "another";
  cut.SetHandlers(handlers, 0);
  EXPECT_TRUE(cut.is_placed());
}

// Otherwise one handler could make the manager place the tasks anew at each step.
TEST(CurrentPlanTest, ChangesThatFollowEachOtherCountOnlyOnceInAWhile) {
  ManagerConfig config = SmallJob();
  config.knows_links = true;
  std::map<std::string, Capacity> handlers = SomeHandlers();
  CurrentPlan cut(config);
  cut.Set(PlanFor(config, cut));
  cut.SetHandlers(handlers, 0);
  cut.named();
  int placed = 0;
  std::int64_t now_us = 0;
  for (std::uint32_t i = 0; i < 60; ++i, now_us += 250'000) {
    handlers.begin()->second.link_round_trip_us = 100 + i;
    cut.SetHandlers(handlers, now_us);
    if (cut.is_placed()) continue;
    ++placed;
    cut.named();
  }
  EXPECT_EQ(placed, 8);
  cut.SetHandlers(handlers, 60'000'000);
  EXPECT_FALSE(cut.is_placed()) << "the last change counts in the end";
}

}  // namespace
}  // namespace acan
