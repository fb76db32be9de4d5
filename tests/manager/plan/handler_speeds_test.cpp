// The speeds of handlers on several hosts that share machines, and what they mean for plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "acan/manager/handler_network.h"
#include "acan/manager/plan.h"
#include "handler_network_cases.h"

namespace acan {
namespace {

TEST(HandlerNetworkTest, HandlersBeyondTheCoresOfTheirHostShareThem) {
  std::map<std::string, Capacity> handlers = OneOnEachHost(2, kGigabit);
  handlers["id1"].host_threads = 2;
  for (int i = 2; i < 5; ++i) handlers["id" + std::to_string(i)] = handlers["id1"];
  for (const NetworkPart& part : PartsOf(*NetworkOf(handlers, kMinKept))) {
    double all = 0;
    std::map<std::size_t, int> members;
    for (const PlacedHandler& handler : part.network.handlers) {
      all += handler.gflops;
      ++members[handler.host];
    }
    double expected = 0;
    for (const auto& [host, count] : members) expected += 50 * std::min(count, host == 1 ? 2 : 1);
    EXPECT_DOUBLE_EQ(all, expected);
  }
}

double GflopsOf(const std::map<std::string, Capacity>& handlers, std::size_t index) {
  return NetworkOf(handlers, kMinKept)->handlers.at(index).gflops;
}

TEST(HandlerNetworkTest, HandlersHaveTheirPresentSpeeds) {
  std::map<std::string, Capacity> handlers = OneOnEachHost(3, kGigabit);
  handlers["id1"].speed = 0.2;
  handlers["id2"].speed = 3;
  EXPECT_DOUBLE_EQ(GflopsOf(handlers, 0), 50);
  EXPECT_DOUBLE_EQ(GflopsOf(handlers, 1), 10);
  EXPECT_DOUBLE_EQ(GflopsOf(handlers, 2), 150);
}

// The cuts are those for two equal handlers. Placed as before, each step would wait for the slow
// one.
TEST(HandlerNetworkTest, AHandlerThatHasBecomeSlowDoesNotHoldUpTheOther) {
  const Wide wide({512, 1024, 1024, 8}, 256);
  std::map<std::string, Capacity> handlers = OneOnEachHost(2, kGigabit);
  for (auto& [id, capacity] : handlers) capacity.gflops = 2;
  const Plan plan = wide.Make(handlers);
  const std::vector<PlannedTask> step = wide.TasksOf(plan);
  const auto step_us = [&] {
    return PlaceStep(handlers, step, kMinKept, {}, 1)->placement.step_us;
  };
  const double both_us = step_us();
  handlers["id1"].speed = 0.1;
  const double slow_us = step_us();
  handlers.erase("id1");
  const double one_us = step_us();
  EXPECT_LT(both_us, 0.9 * one_us);
  EXPECT_LE(slow_us, 1.1 * one_us);
}

// If one of two handlers that share a core becomes faster because the other one is idle, the core
// does not.
TEST(HandlerNetworkTest, HandlersThatShareCoresHaveTheirMeasuredSpeeds) {
  std::map<std::string, Capacity> handlers = OneOnEachHost(3, kGigabit);
  handlers["id0"] = handlers["id1"] = OnMachine(handlers["id0"], "m", {0});
  handlers["id0"].speed = handlers["id2"].speed = 0.5;
  EXPECT_DOUBLE_EQ(GflopsOf(handlers, 0), 50);
  EXPECT_DOUBLE_EQ(GflopsOf(handlers, 2), 25);
  handlers["id1"].cpus = {1};
  EXPECT_DOUBLE_EQ(GflopsOf(handlers, 0), 25);
}

// Two addresses, as of two containers on one machine with two cores.
TEST(HandlerNetworkTest, HostsOfOneMachineShareItsCores) {
  std::map<std::string, Capacity> handlers = OneOnEachHost(2, kGigabit);
  for (auto& [id, capacity] : handlers) capacity = OnMachine(capacity, "m", {0, 1});
  handlers["id2"] = handlers["id0"];
  handlers["id3"] = handlers["id1"];
  const auto network = NetworkOf(handlers, kMinKept);
  ASSERT_EQ(network->hosts.size(), 2u);
  ASSERT_EQ(network->machines.size(), 1u);
  EXPECT_EQ(network->machines[0].cores, 2);
  for (const NetworkPart& part : PartsOf(*network)) {
    double gflops = 0;
    for (const PlacedHandler& handler : part.network.handlers) gflops += handler.gflops;
    EXPECT_DOUBLE_EQ(gflops, 50 * std::min<double>(2, part.handlers.size()));
  }
}

TEST(HandlerNetworkTest, HandlersThatArePinnedToDifferentCoresShareNone) {
  std::map<std::string, Capacity> handlers = OneOnEachHost(2, kGigabit);
  handlers["id0"] = OnMachine(handlers["id0"], "m", {0});
  handlers["id1"] = OnMachine(handlers["id1"], "m", {1});
  const auto network = NetworkOf(handlers, kMinKept);
  EXPECT_EQ(network->machines[0].cores, 2);
  for (const NetworkPart& part : PartsOf(*network)) {
    for (const PlacedHandler& handler : part.network.handlers) {
      EXPECT_DOUBLE_EQ(handler.gflops, 50);
    }
  }
}

TEST(HandlerNetworkTest, AThrottledHandlerNeedsAPartOfACore) {
  std::map<std::string, Capacity> handlers = OneOnEachHost(2, kGigabit);
  for (int i = 0; i < 8; ++i) {
    Capacity& capacity = handlers["id" + std::to_string(i)];
    capacity = OnMachine(FarHandler("10.0.0." + std::to_string(i % 2), kGigabit, 10), "m", {0, 1});
    capacity.busy_cpus = 0.2;
  }
  const auto network = NetworkOf(handlers, kMinKept);
  for (const NetworkPart& part : PartsOf(*network)) {
    for (const PlacedHandler& handler : part.network.handlers) {
      EXPECT_DOUBLE_EQ(handler.gflops, 10);
    }
  }
}

// Encryption uses processor time of the same cores.
TEST(HandlerNetworkTest, AStepTakesAtLeastTheProcessorTimeOfItsMachine) {
  const Wide wide({784, 2048, 2048, 10}, 256);
  auto handlers = OneOnEachHost(2, 82);  // 100 Gbit/s
  const std::vector<PlannedTask> tasks = wide.TasksOf(wide.Make(handlers));
  const Placement apart =
      PlaceTasks(*NetworkOf(handlers, kMinKept), tasks, PlacementEffort::kQuick);
  for (auto& [id, capacity] : handlers) capacity = OnMachine(capacity, "m", {0, 1});
  const auto together = [&](const std::string& manager) {
    return PlaceTasks(*NetworkOf(handlers, kMinKept, manager), tasks, PlacementEffort::kQuick);
  };
  const Placement shared = together("elsewhere");
  EXPECT_GE(shared.step_us, apart.step_us);
  EXPECT_GE(shared.step_us, shared.cpu_us[0] / 2);
  EXPECT_GT(together("m").cpu_us[0], shared.cpu_us[0]) << "the manager's and the broker's";
}

TEST(HandlerNetworkTest, MoreHandlersOfOneMachineNeverMakeTheEstimateWorse) {
  const Wide wide({784, 2048, 2048, 10}, 256);
  double before_us = INFINITY;
  for (const int count : {2, 4, 8}) {
    std::map<std::string, Capacity> handlers;
    for (int i = 0; i < count; ++i) {
      const Capacity far = FarHandler("10.0.0." + std::to_string(i % 2), kGigabit);
      handlers["id" + std::to_string(i)] = OnMachine(far, "m", {0, 1});
    }
    const double step_us = wide.Make(handlers).step_us;
    EXPECT_LE(step_us, 1.03 * before_us) << count;
    before_us = step_us;
  }
}

TEST(WorkerSpeedTest, HandlersBeyondTheCoresOfAMachineDoNotCount) {
  Capacity one;
  one.device = "cpu:1";
  one.gflops = 50;
  one = OnMachine(one, "m", {0, 1});
  std::map<std::string, Capacity> handlers{{"a", one}, {"b", one}};
  const WorkerSpeed two = SpeedOf(handlers);
  EXPECT_EQ(two.workers, 2);
  for (const char* id : {"c", "d", "e", "f"}) {
    handlers[id] = one;
    handlers[id].gflops = 15;  // measured while the others were running
  }
  const WorkerSpeed six = SpeedOf(handlers);
  EXPECT_EQ(six.workers, 2);
  EXPECT_DOUBLE_EQ(six.gflops, two.gflops);
  EXPECT_EQ(six.slowest_share, 0);
  Capacity gpu = one;
  gpu.device = "cuda:0";
  gpu.own_memory = true;
  gpu.busy_cpus = 0;
  handlers["g"] = gpu;
  EXPECT_EQ(SpeedOf(handlers).workers, 3) << "it needs no core";
  for (auto& [id, capacity] : handlers) capacity.machine.clear();
  EXPECT_EQ(SpeedOf(handlers).workers, SpeedOf({50, 50, 15, 15, 15, 15, 50}, 7).workers);
}

TEST(WorkerSpeedTest, ThrottledHandlersCountWholly) {
  Capacity one;
  one.device = "cpu:1";
  one.gflops = 1;
  one = OnMachine(one, "m", {0, 1});
  one.busy_cpus = 0.02;
  std::map<std::string, Capacity> handlers;
  for (int i = 0; i < 9; ++i) handlers[std::to_string(i)] = one;
  EXPECT_EQ(SpeedOf(handlers).workers, 9);
}

TEST(HandlerNetworkTest, HandlersThatMeasuredTogetherAreAsFastAsTheBestOfThem) {
  std::map<std::string, Capacity> handlers = OneOnEachHost(2, kGigabit);
  handlers["id1"].host_threads = 2;
  handlers["id2"] = handlers["id3"] = handlers["id1"];
  handlers["id2"].gflops = 20;
  handlers["id3"].gflops = 1;
  const auto network = NetworkOf(handlers, kMinKept);
  EXPECT_DOUBLE_EQ(network->handlers[2].gflops, 50);
  EXPECT_DOUBLE_EQ(network->handlers[3].gflops, 8) << "it is slower by far";
}

}  // namespace
}  // namespace acan
