// CurrentPlan: when its tasks are placed anew.
#include "acan/manager/current_plan.h"

#include <gtest/gtest.h>

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

// A placement takes about half a second, and handlers may come and go each second.
TEST(CurrentPlanTest, IsPlacedAnewOnlyIfOtherHandlersWouldGetTasks) {
  ManagerConfig config = SmallJob();
  config.knows_links = true;
  std::map<std::string, Capacity> handlers = MoreThanCanBePlaced();
  CurrentPlan cut(config);
  PlanRequest request;
  request.model = cut.model();
  request.training = config.training;
  request.capacity_bytes = 1 << 30;
  cut.Set(*MakePlan(request, nullptr));
  cut.SetHandlers(handlers);
  EXPECT_FALSE(cut.is_placed());
  cut.named();
  EXPECT_TRUE(cut.is_placed());

  handlers.at("slow").gflops = 2;
  cut.SetHandlers(handlers);
  EXPECT_TRUE(cut.is_placed());
  handlers.erase("slow");
  cut.SetHandlers(handlers);
  EXPECT_TRUE(cut.is_placed());

  handlers.at("id7").gflops = 50;
  cut.SetHandlers(handlers);
  EXPECT_FALSE(cut.is_placed()) << "a handler with tasks became slower";
  cut.named();
  handlers.erase("id7");
  cut.SetHandlers(handlers);
  EXPECT_FALSE(cut.is_placed()) << "a handler with tasks left";
  cut.named();
  cut.Set(*MakePlan(request, nullptr));
  EXPECT_FALSE(cut.is_placed()) << "its tasks are others";
}

}  // namespace
}  // namespace acan
