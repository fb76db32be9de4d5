// Plans for handlers on several hosts: what crosses the links, and who should do what.
#include "acan/manager/handler_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "acan/manager/graph_planner.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/plan.h"

namespace acan {
namespace {

constexpr std::uint32_t kGigabit = 8'192, kHundredMbit = 81'920;  // ns for a KiB
constexpr std::uint64_t kLeastKept = 256 << 10;

Capacity FarHandler(const std::string& host, std::uint32_t ns_per_kib, double gflops = 50) {
  Capacity capacity;
  capacity.memory_bytes = capacity.limit_bytes = 1ull << 30;
  capacity.gflops = gflops;
  capacity.bytes_travel = true;
  capacity.host = host;
  capacity.link_ns_per_kib = ns_per_kib;
  capacity.link_round_trip_us = 200;
  return capacity;
}

std::map<std::string, Capacity> OneOnEachHost(int hosts, std::uint32_t ns_per_kib) {
  std::map<std::string, Capacity> handlers;
  for (int i = 0; i < hosts; ++i) {
    handlers["id" + std::to_string(i)] = FarHandler("10.0.0." + std::to_string(i), ns_per_kib);
  }
  return handlers;
}

struct Wide {
  explicit Wide(std::vector<std::int64_t> layers, std::int64_t batch) {
    model =
        LowerModel(BuildModel(Model{.layers = std::move(layers), .loss = Loss::kMeanSquaredError}));
    training.batch = batch;
    training.optimizer = Optimizer::kMomentum;
  }
  Plan Make(const std::map<std::string, Capacity>& handlers) const {
    PlanRequest request;
    request.model = model;
    request.training = training;
    request.capacity_bytes = 1ull << 30;
    request.handlers.workers = static_cast<int>(handlers.size());
    request.network = NetworkOf(handlers, kLeastKept);
    return *MakePlan(request, nullptr);
  }
  std::vector<PlannedTask> TasksOf(const Plan& plan) const {
    Pass pass;
    pass.job = "run";
    pass.rows = training.batch;
    return PassTasks(model, training, plan).Tasks(pass);
  }
  Placement Place(const std::map<std::string, Capacity>& handlers) const {
    return PlaceOnBestPart(*NetworkOf(handlers, kLeastKept), TasksOf(Make(handlers)));
  }
  PlannedModel model;
  Training training;
};

TEST(HandlerNetworkTest, HandlersOfOneAddressAreOneHost) {
  std::map<std::string, Capacity> handlers = OneOnEachHost(2, kGigabit);
  handlers["id2"] = FarHandler("10.0.0.1", 2 * kGigabit);
  handlers["near"] = {};
  handlers["unknown"] = FarHandler("", 0);
  const auto network = NetworkOf(handlers, kLeastKept);
  ASSERT_TRUE(network);
  ASSERT_EQ(network->handlers.size(), 5u);
  EXPECT_EQ(network->hosts.size(), 4u);
  EXPECT_EQ(network->handlers[2].host, network->handlers[1].host);
  EXPECT_DOUBLE_EQ(network->hosts[1].us_per_kib, 8.192) << "the better of two measurements";
  EXPECT_EQ(network->hosts[network->handlers[3].host].us_per_kib, 0) << "shares memory";
  EXPECT_GT(network->hosts[network->handlers[4].host].us_per_kib, 0) << "assumed";
}

TEST(HandlerNetworkTest, OneHostIsNoNetwork) {
  EXPECT_FALSE(NetworkOf({{"a", {}}, {"b", {}}}, kLeastKept));
  EXPECT_FALSE(NetworkOf(OneOnEachHost(1, kGigabit), kLeastKept));
}

TEST(HandlerNetworkTest, HandlersBeyondTheCoresOfTheirHostShareThem) {
  std::map<std::string, Capacity> handlers = OneOnEachHost(2, kGigabit);
  handlers["id1"].host_threads = 2;
  for (int i = 2; i < 5; ++i) handlers["id" + std::to_string(i)] = handlers["id1"];
  for (const NetworkPart& part : PartsOf(*NetworkOf(handlers, kLeastKept))) {
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

TEST(HandlerNetworkTest, HandlersThatMeasuredTogetherAreAsFastAsTheBestOfThem) {
  std::map<std::string, Capacity> handlers = OneOnEachHost(2, kGigabit);
  handlers["id1"].host_threads = 2;
  handlers["id2"] = handlers["id3"] = handlers["id1"];
  handlers["id2"].gflops = 20;
  handlers["id3"].gflops = 1;
  const auto network = NetworkOf(handlers, kLeastKept);
  EXPECT_DOUBLE_EQ(network->handlers[2].gflops, 50);
  EXPECT_DOUBLE_EQ(network->handlers[3].gflops, 8) << "it is slower by far";
}

// Activations of 2.1 MB a layer and 0.8 MB of samples for each host move; 23.4 MB of weights stay.
TEST(HandlerNetworkTest, OverASlowLinkWeightsStayAndActivationsMove) {
  const Wide wide({784, 2048, 2048, 10}, 256);
  auto handlers = OneOnEachHost(2, kHundredMbit);
  for (auto& [id, capacity] : handlers) capacity.gflops = 10;
  const Placement placed = wide.Place(handlers);
  ASSERT_EQ(placed.loads.size(), 2u);
  for (const LinkLoad& load : placed.loads) {
    EXPECT_GT(load.in_bytes, 0u) << "both hosts take part";
    EXPECT_LT(load.in_bytes, 4'500'000u);
    EXPECT_LT(load.out_bytes, 4'500'000u);
  }
}

// Many rows and few weights: what moves least is a part of each gradient.
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

// A step of 6 ms, for which the samples alone would travel 60 ms to a second host.
TEST(HandlerNetworkTest, AHandlerThatWouldCostMoreThanItBringsGetsNothing) {
  const Wide small({784, 64, 10}, 256);
  const Placement placed = small.Place(OneOnEachHost(3, kHundredMbit));
  const std::set<int> used(placed.handler_of.begin(), placed.handler_of.end());
  EXPECT_EQ(used.size(), 1u);
}

// The tiles of the next step are where this one has made them.
TEST(HandlerNetworkTest, NoTileMovesInTheSteadyState) {
  const Wide wide({784, 2048, 2048, 10}, 256);
  const auto handlers = OneOnEachHost(2, kHundredMbit);
  const std::vector<PlannedTask> tasks = wide.TasksOf(wide.Make(handlers));
  const Placement placed = PlaceOnBestPart(*NetworkOf(handlers, kLeastKept), tasks);
  ASSERT_EQ(placed.handler_of.size(), tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const tuplespace::Key& input : tasks[i].inputs) {
      const auto tile = TileIdOf(input);
      if (!tile) continue;
      EXPECT_EQ(placed.home_of.at(*tile), placed.handler_of[i]) << input.ToString();
    }
  }
}

// With what they have, three hosts are not slower than two, by the estimate that chooses.
TEST(HandlerNetworkTest, MoreHandlersNeverMakeTheEstimateWorse) {
  const Wide wide({784, 512, 256, 10}, 128);
  double before_us = INFINITY;
  for (const int hosts : {2, 4, 8}) {
    const Plan plan = wide.Make(OneOnEachHost(hosts, kGigabit));
    EXPECT_LE(plan.step_us, 1.001 * before_us) << hosts;
    before_us = plan.step_us;
  }
}

TEST(HandlerNetworkTest, TilesThatFitIntoNobodyAreNotPlaced) {
  auto handlers = OneOnEachHost(2, kGigabit);
  for (auto& [id, capacity] : handlers) capacity.memory_bytes = 8 << 20;
  const Wide wide({784, 2048, 2048, 10}, 256);
  PlanRequest request;
  request.model = wide.model;
  request.training = wide.training;
  request.capacity_bytes = 8 << 20;
  request.network = NetworkOf(handlers, kLeastKept);
  const auto plan = MakePlan(request, nullptr);
  ASSERT_TRUE(plan) << "as without links";
  EXPECT_FALSE(std::isfinite(PlaceOnBestPart(*request.network, wide.TasksOf(*plan)).step_us));
}

// The manager does nothing else while it plans, and must not lose the lead.
TEST(HandlerNetworkTest, MoreTasksThanTheManagerHasTimeForAreNotPlaced) {
  const auto handlers = OneOnEachHost(2, kGigabit);
  const Wide wide({784, 2048, 10}, 256);
  std::vector<PlannedTask> tasks = wide.TasksOf(wide.Make(handlers));
  while (tasks.size() <= 32'768) tasks.insert(tasks.end(), tasks.begin(), tasks.end());
  const Placement placed = PlaceOnBestPart(*NetworkOf(handlers, kLeastKept), tasks);
  EXPECT_FALSE(std::isfinite(placed.step_us));
  EXPECT_EQ(placed.handler_of, std::vector<int>(tasks.size(), -1));
}

TEST(HandlerNetworkTest, WithoutABudgetTheFirstCutThatFitsIsChosen) {
  const HandlerNetwork network = *NetworkOf(OneOnEachHost(2, kGigabit), kLeastKept);
  const Wide wide({784, 2048, 2048, 10}, 256);
  const auto choose = [&](SearchBudget budget) {
    CutRequest request{
        .model = *wide.model, .training = wide.training, .size_bytes = {}, .batch_rows = {}};
    request.capacity_bytes = 1ull << 30;
    request.workers = 2;
    request.gflops = 50;
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
