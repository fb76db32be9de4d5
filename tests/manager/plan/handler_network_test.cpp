// Plans for handlers on several hosts: what crosses the links, and which handler does what.
#include "acan/manager/handler_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "acan/manager/graph_planner.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/plan.h"
#include "handler_network_cases.h"
#include "placement_search.h"

namespace acan {
namespace {

TEST(HandlerNetworkTest, HandlersOfOneAddressAreOneHost) {
  std::map<std::string, Capacity> handlers = OneOnEachHost(2, kGigabit);
  handlers["id2"] = FarHandler("10.0.0.1", 2 * kGigabit);
  handlers["near"] = {};
  handlers["unknown"] = FarHandler("", 0);
  const auto network = NetworkOf(handlers, kMinKept);
  ASSERT_TRUE(network);
  ASSERT_EQ(network->handlers.size(), 5u);
  EXPECT_EQ(network->hosts.size(), 4u);
  EXPECT_EQ(network->handlers[2].host, network->handlers[1].host);
  EXPECT_DOUBLE_EQ(network->hosts[1].us_per_kib, 8.192) << "the better of two measurements";
  EXPECT_EQ(network->hosts[network->handlers[3].host].us_per_kib, 0) << "shares memory";
  EXPECT_GT(network->hosts[network->handlers[4].host].us_per_kib, 0) << "assumed";
}

TEST(HandlerNetworkTest, LinksOfOneKindAreAsFastAsTheBestOfThem) {
  std::map<std::string, Capacity> handlers = OneOnEachHost(4, kGigabit);
  handlers["id0"].link_ns_per_kib = kGigabit * 3 / 2;
  handlers["id1"].link_ns_per_kib = kHundredMbit;
  handlers["id3"].link_ns_per_kib = kHundredMbit * 6 / 5;
  const auto network = NetworkOf(handlers, kMinKept);
  ASSERT_TRUE(network);
  for (const std::size_t host : {0, 2}) {
    EXPECT_DOUBLE_EQ(network->hosts[host].us_per_kib, 8.192) << host;
  }
  for (const std::size_t host : {1, 3}) {
    EXPECT_DOUBLE_EQ(network->hosts[host].us_per_kib, 81.92) << host;
  }
}

TEST(HandlerNetworkTest, OneHostIsNoNetwork) {
  EXPECT_FALSE(NetworkOf({{"a", {}}, {"b", {}}}, kMinKept));
  EXPECT_FALSE(NetworkOf(OneOnEachHost(1, kGigabit), kMinKept));
  const auto estimated = NetworkOf(OneOnEachHost(1, kGigabit), kMinKept, {}, /*least_hosts=*/1);
  ASSERT_TRUE(estimated);
  EXPECT_DOUBLE_EQ(estimated->hosts[0].us_per_kib, 8.192);
}

// With one handler more than can be placed, tasks would otherwise lie anywhere.
TEST(HandlerNetworkTest, TheBestOfManyHandlersArePlaced) {
  auto handlers = OneOnEachHost(static_cast<int>(kMaxPlacedHandlers) + 2, kGigabit);
  handlers["id7"].gflops = 40;
  handlers["id9"].memory_bytes /= 2;
  const auto network = NetworkOf(handlers, kMinKept);
  ASSERT_TRUE(network);
  EXPECT_EQ(network->handlers.size(), kMaxPlacedHandlers);
  for (const PlacedHandler& handler : network->handlers) {
    EXPECT_EQ(handler.gflops, 50);
    EXPECT_EQ(handler.memory_bytes, 1u << 30);
  }
  // A fast handler that lacks the memory for the largest task does not displace others.
  handlers["id9"].gflops = 60;
  EXPECT_TRUE(HandlersToPlace(handlers).contains("id9"));
  EXPECT_FALSE(HandlersToPlace(handlers, 1u << 30).contains("id9"));

  const Wide wide({784, 512, 10}, 64);
  const auto step = PlaceStep(handlers, wide.TasksOf(wide.Make(handlers)), kMinKept, {});
  ASSERT_TRUE(step);
  EXPECT_EQ(step->ids.size(), kMaxPlacedHandlers);
  EXPECT_EQ(std::ranges::count(step->ids, "id7"), 0);
  EXPECT_TRUE(std::isfinite(step->placement.step_us));
}

// Each host transfers activations of 2.1 MB per layer and samples of 0.8 MB, some of them while the
// link is idle anyway. 23.4 MB of weights stay.
TEST(HandlerNetworkTest, OverASlowLinkWeightsStayAndActivationsMove) {
  const Wide wide({784, 2048, 2048, 10}, 256);
  auto handlers = OneOnEachHost(2, kHundredMbit);
  for (auto& [id, capacity] : handlers) capacity.gflops = 5;
  const Placement placed = wide.Place(handlers);
  ASSERT_EQ(placed.loads.size(), 2u);
  for (const LinkLoad& load : placed.loads) {
    EXPECT_GT(load.in_bytes, 0u) << "both hosts take part";
    EXPECT_LT(load.in_bytes, 5'500'000u);
    EXPECT_LT(load.out_bytes, 5'500'000u);
  }
}

// With many rows and few weights, the parts of gradients are the smallest transfers.
TEST(HandlerNetworkTest, ManyRowsOfFewWeightsAreCutByRows) {
  const Wide narrow({128, 256, 256, 10}, 8192);
  const auto handlers = OneOnEachHost(2, kGigabit);
  const Plan plan = narrow.Make(handlers);
  EXPECT_TRUE(std::all_of(plan.cuts.training.begin(), plan.cuts.training.end(),
                          [](const Segment& segment) { return !segment.by_tiles; }))
      << plan.summary;
  const Placement placed = narrow.Place(handlers);
  const std::set<int> used(placed.handler_of.begin(), placed.handler_of.end());
  EXPECT_EQ(used.size(), 2u);
}

// A step takes 6 ms, but sending the samples to a second host would take 60 ms.
TEST(HandlerNetworkTest, AHandlerThatWouldCostMoreThanItBringsGetsNothing) {
  const Wide small({784, 64, 10}, 256);
  const Placement placed = small.Place(OneOnEachHost(3, kHundredMbit));
  const std::set<int> used(placed.handler_of.begin(), placed.handler_of.end());
  EXPECT_EQ(used.size(), 1u);
}

// The tiles that a step reads are where the step before made them.
TEST(HandlerNetworkTest, NoTileMovesInTheSteadyState) {
  const Wide wide({784, 2048, 2048, 10}, 256);
  const auto handlers = OneOnEachHost(2, kHundredMbit);
  const std::vector<PlannedTask> tasks = wide.TasksOf(wide.Make(handlers));
  const Placement placed = PlaceOnBestPart(*NetworkOf(handlers, kMinKept), tasks);
  ASSERT_EQ(placed.handler_of.size(), tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const tuplespace::Key& input : tasks[i].inputs) {
      const auto tile = TileIdOf(input);
      if (!tile) continue;
      EXPECT_EQ(placed.home_of.at(*tile), placed.handler_of[i]) << input.ToString();
    }
  }
}

// With four hosts, a plan whose small cells repeatedly pass through the broker is not the best one.
TEST(HandlerNetworkTest, TheBrokersLinkIsNotWhatCarriesAStep) {
  const Wide wide({784, 2048, 2048, 10}, 256);
  std::map<std::string, Capacity> handlers;
  for (int i = 0; i < 4; ++i) {
    handlers["id" + std::to_string(i)] = FarHandler("10.0.0." + std::to_string(i), kGigabit, 8);
  }
  const Placement placed = wide.Place(handlers);
  std::uint64_t into_hosts = 0;
  for (const LinkLoad& load : placed.loads) into_hosts += load.in_bytes;
  EXPECT_LT(placed.broker_bytes, into_hosts / 20);
}

// According to the estimate, more hosts with the same links are never slower.
TEST(HandlerNetworkTest, MoreHandlersNeverMakeTheEstimateWorse) {
  const Wide wide({784, 512, 256, 10}, 128);
  double before_us = INFINITY;
  for (const int hosts : {2, 4, 8}) {
    const Plan plan = wide.Make(OneOnEachHost(hosts, kGigabit));
    EXPECT_LE(plan.step_us, 1.001 * before_us) << hosts;
    before_us = plan.step_us;
  }
}

// The search for fewer hosts does not end earlier because there are more of them.
TEST(HandlerNetworkTest, ManyHandlersHaveAPlanAsGoodAsThatOfAFew) {
  const Wide wide({256, 8192, 8192, 256}, 64);
  const double of_few_us = wide.Make(OneOnEachHost(8, kGigabit)).step_us;
  EXPECT_LE(wide.Make(OneOnEachHost(64, kGigabit)).step_us, 1.1 * of_few_us);
}

TEST(HandlerNetworkTest, TilesThatFitIntoNobodyAreNotPlaced) {
  auto handlers = OneOnEachHost(2, kGigabit);
  for (auto& [id, capacity] : handlers) capacity.memory_bytes = 8 << 20;
  const Wide wide({784, 2048, 2048, 10}, 256);
  PlanRequest request;
  request.model = wide.model;
  request.training = wide.training;
  request.capacity_bytes = 8 << 20;
  request.network = NetworkOf(handlers, kMinKept);
  const auto plan = MakePlan(request, nullptr);
  ASSERT_TRUE(plan) << "as without links";
  const std::vector<PlannedTask> tasks = wide.TasksOf(*plan);
  std::uint64_t moved_bytes = 0;
  for (const PlannedTask& task : tasks) moved_bytes += MovedBytes(task.task);
  EXPECT_GT(plan->step_us, UsOverOneLink(*request.network, moved_bytes));
  EXPECT_GT(UsOverOneLink(*request.network, moved_bytes), 8 * (moved_bytes >> 10));
  EXPECT_FALSE(std::isfinite(PlaceOnBestPart(*request.network, tasks).step_us));
}

// The manager does nothing else while it plans, and must not lose the lead meanwhile.
TEST(HandlerNetworkTest, MoreTasksThanTheManagerHasTimeForAreNotPlaced) {
  const auto handlers = OneOnEachHost(2, kGigabit);
  const Wide wide({784, 2048, 10}, 256);
  std::vector<PlannedTask> tasks = wide.TasksOf(wide.Make(handlers));
  while (tasks.size() <= kMaxOffers) tasks.insert(tasks.end(), tasks.begin(), tasks.end());
  const Placement placed = PlaceOnBestPart(*NetworkOf(handlers, kMinKept), tasks);
  EXPECT_FALSE(std::isfinite(placed.step_us));
  EXPECT_EQ(placed.handler_of, std::vector<int>(tasks.size(), -1));
}

TEST(HandlerNetworkTest, TasksThatAreTooManyForAllHandlersArePlacedOnSome) {
  const auto handlers = OneOnEachHost(static_cast<int>(kMaxPlacedHandlers), kGigabit);
  const Wide wide({784, 1024, 1024, 10}, 64);
  PlanRequest request;
  request.model = wide.model;
  request.training = wide.training;
  request.capacity_bytes = 1ull << 30;
  request.size_bytes = 16 << 10;
  const std::vector<PlannedTask> tasks = wide.TasksOf(*MakePlan(request, nullptr));
  ASSERT_LT(MaxHandlersToPlace(tasks.size()), kMaxPlacedHandlers) << tasks.size() << " tasks";
  ASSERT_GT(MaxHandlersToPlace(tasks.size()), 1u);
  const Placement placed = PlaceOnBestPart(*NetworkOf(handlers, kMinKept), tasks);
  EXPECT_TRUE(std::isfinite(placed.step_us));
  EXPECT_EQ(std::ranges::count(placed.handler_of, -1), 0);
}

std::map<std::string, Capacity> ThrottledHosts(int hosts) {
  std::map<std::string, Capacity> handlers;
  for (int i = 0; i < hosts; ++i) {
    Capacity& capacity = handlers["id" + std::to_string(i)];
    capacity = FarHandler("10.0.0." + std::to_string(i), kGigabit, 8);
    capacity = OnMachine(std::move(capacity), "m", {0, 1});
    capacity.busy_cpus = 0.08;
  }
  return handlers;
}

// With four hosts the weights need tiles of four rows and four columns, so that a layer's results
// are where the next layer reads them. The computation alone takes 0.27 s.
TEST(HandlerNetworkTest, FourHostsAreAlmostTwiceAsFastAsTwo) {
  const Wide wide({784, 2048, 2048, 10}, 256);
  const double of_two_us = wide.Make(ThrottledHosts(2)).step_us;
  const double of_four_us = wide.Make(ThrottledHosts(4)).step_us;
  EXPECT_GT(of_four_us, 265e3);
  EXPECT_GT(of_two_us / of_four_us, 1.8);
}

TEST(HandlerNetworkTest, APlacementWithMoreEffortIsNeverWorseAndAlwaysTheSame) {
  for (const Wide& wide : {Wide({784, 2048, 2048, 10}, 256), Wide({128, 256, 256, 10}, 2048)}) {
    for (const int hosts : {2, 4}) {
      const auto handlers = ThrottledHosts(hosts);
      const HandlerNetwork network = *NetworkOf(handlers, kMinKept);
      const std::vector<PlannedTask> tasks = wide.TasksOf(wide.Make(handlers));
      const Placement quick = PlaceTasks(network, tasks, PlacementEffort::kQuick);
      const Placement thorough = PlaceTasks(network, tasks, PlacementEffort::kThorough);
      EXPECT_LE(ScoreOf(network, thorough), ScoreOf(network, quick)) << hosts;
      EXPECT_EQ(PlaceTasks(network, tasks, PlacementEffort::kThorough).handler_of,
                thorough.handler_of);
    }
  }
}

TEST(PlacementSearchTest, LooksAtNoMorePlacementsThanItMay) {
  const Wide wide({784, 2048, 2048, 10}, 256);
  const HandlerNetwork network = *NetworkOf(ThrottledHosts(4), kMinKept);
  const StepShape shape = ShapeOf(network, wide.TasksOf(wide.Make(ThrottledHosts(4))));
  const Placement begin = PlaceSteadily(network, shape, std::vector<int>(shape.tasks.size(), 0));
  EXPECT_EQ(Improve(network, shape, begin, 0).handler_of, begin.handler_of);
  const Placement one = Improve(network, shape, begin, 1);
  const Placement many = Improve(network, shape, begin, 2000);
  EXPECT_LE(one.step_us, begin.step_us);
  EXPECT_LT(many.step_us, 0.6 * begin.step_us) << "from one handler to four";
}

// The samples of the next step travel while the handlers finish the current one.
TEST(PlacementSearchTest, AStepOfManyIsShorterThanOneAlone) {
  const Wide wide({784, 2048, 2048, 10}, 256);
  const HandlerNetwork network = *NetworkOf(ThrottledHosts(4), kMinKept);
  const StepShape shape = ShapeOf(network, wide.TasksOf(wide.Make(ThrottledHosts(4))));
  const std::vector<int> pinned = SpreadsOfTiles(network, shape).front();
  const Placement alone = PlaceGreedily(network, shape, HomesOf(shape, pinned), pinned, 0);
  const Placement steady = PlaceSteadily(network, shape, alone.handler_of);
  EXPECT_GT(alone.manager_bytes, 3'000'000u) << "to each of the four";
  EXPECT_LT(steady.step_us + 20e3, alone.step_us);
}

// Tasks that fit into no handler's memory are not placed.
TEST(PlacementSearchTest, WhatDoesNotFitIsNotPlaced) {
  const Wide wide({784, 2048, 2048, 10}, 256);
  auto handlers = ThrottledHosts(2);
  const std::vector<PlannedTask> tasks = wide.TasksOf(wide.Make(handlers));
  for (auto& [id, capacity] : handlers) capacity.memory_bytes = 8 << 20;
  const HandlerNetwork network = *NetworkOf(handlers, kMinKept);
  const StepShape shape = ShapeOf(network, tasks);
  const Placement placed = PlaceSteadily(network, shape, std::vector<int>(shape.tasks.size(), 0));
  EXPECT_FALSE(std::isfinite(placed.step_us));
  EXPECT_FALSE(std::isfinite(Improve(network, shape, placed, 100).step_us));
}

TEST(HandlerNetworkTest, WithoutABudgetTheFirstCutThatFitsIsChosen) {
  const HandlerNetwork network = *NetworkOf(OneOnEachHost(2, kGigabit), kMinKept);
  const Wide wide({784, 2048, 2048, 10}, 256);
  const auto choose = [&](SearchBudget budget) {
    CutRequest request{
        .model = *wide.model, .training = wide.training, .size_bytes = {}, .batch_rows = {}};
    request.capacity_bytes = 1ull << 30;
    request.speed.workers = 2;
    request.speed.gflops = 50;
    request.tuple_bytes = request.task_inputs = UINT64_MAX;
    request.network = &network;
    request.budget = &budget;
    const auto chosen = ChooseCuts(request, nullptr);
    EXPECT_LT(budget.nodes, INT64_MAX) << "it counts what it looked at";
    return chosen ? chosen->cost.step_us : 0;
  };
  const double hurried_us = choose({.nodes = 1, .tasks = 0});
  const double best_us = choose({.nodes = INT64_MAX, .tasks = INT64_MAX});
  EXPECT_GT(hurried_us, best_us);
  EXPECT_GT(best_us, 0);
}

}  // namespace
}  // namespace acan
