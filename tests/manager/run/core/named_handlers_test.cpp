// ManagerCore alone: which handlers its tasks name if bytes cross links, and that it waits for
// handlers that are about to join before it plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "acan/core/task_limits.h"
#include "acan/manager/handler_network.h"
#include "acan/manager/named_handlers.h"
#include "acan/manager/tuple_names.h"
#include "manager_shell.h"

namespace acan {
namespace {

ManagerConfig JobOnHosts() {
  ManagerConfig config = SmallJob();
  config.fixed_handlers = true;
  return config;
}

HandlersSeen OnHosts(std::initializer_list<const char*> hosts) {
  HandlersSeen seen;
  for (const char* host : hosts) {
    Capacity capacity;
    capacity.name = host;
    capacity.memory_bytes = capacity.limit_bytes = 1 << 30;
    capacity.gflops = 100;
    capacity.exact = capacity.bytes_travel = true;
    capacity.host = host;
    capacity.link_ns_per_kib = 1;
    capacity.link_round_trip_us = 1;
    seen.handlers.emplace("id" + std::to_string(seen.handlers.size()), capacity);
  }
  return seen;
}

TEST(NamedHandlersTest, TasksOverLinksNameAHandlerThatIsThere) {
  Shell shell(JobOnHosts());
  shell.Send(OnHosts({"a", "b"}));
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  ASSERT_FALSE(shell.named.empty());
  // Tasks of the last step of an epoch, which has fewer samples, name nobody.
  EXPECT_LT(shell.named[""], shell.tasks / 2);
  for (const auto& [id, tasks] : shell.named) {
    EXPECT_TRUE(id == "id0" || id == "id1" || id.empty()) << id;
  }
  EXPECT_GT(shell.named["id0"] + shell.named["id1"], 0u);
}

// One handler more than can be placed must not turn the placement off for all.
TEST(NamedHandlersTest, TheBestOfManyHandlersAreNamed) {
  HandlersSeen seen;
  for (std::size_t i = 0; i <= kMaxPlacedHandlers; ++i) {
    const std::string host = "host " + std::to_string(i);
    seen.handlers.emplace("id" + std::to_string(i), OnHosts({host.c_str()}).handlers.at("id0"));
  }
  seen.handlers.at("id3").gflops = 50;
  Shell shell(JobOnHosts());
  shell.Send(seen);
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  EXPECT_LT(shell.named[""], shell.tasks / 2);
  EXPECT_FALSE(shell.named.contains("id3"));
  const std::string said = shell.Said();
  const std::size_t first = said.find("tasks are placed on at most 64 handlers");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("tasks are placed on", first + 1), std::string::npos) << "it is said once";
}

// Each of them can hold any task, but together they cannot keep the weights and their states.
TEST(NamedHandlersTest, ThatNobodyIsNamedIsSaid) {
  HandlersSeen seen = OnHosts({"a", "b"});
  for (auto& [id, capacity] : seen.handlers) capacity.memory_bytes = 80 << 10;
  Shell shell(JobOnHosts());
  shell.Send(seen);
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  EXPECT_EQ(shell.named[""], shell.tasks);
  EXPECT_NE(shell.Said().find("too little memory to keep the weights"), std::string::npos)
      << shell.Said();
}

TEST(NamedHandlersTest, OnOneHostNobodyIsNamed) {
  for (const HandlersSeen& seen : {Handlers({1 << 30, 1 << 30}), OnHosts({"a", "a"})}) {
    Shell shell(JobOnHosts());
    shell.Send(seen);
    shell.RunAll();
    EXPECT_TRUE(shell.done);
    EXPECT_EQ(shell.named[""], shell.tasks);
  }
}

TEST(NamedHandlersTest, WithoutKnowledgeOfLinksNobodyIsNamed) {
  ManagerConfig config = JobOnHosts();
  config.knows_links = false;
  Shell shell(std::move(config));
  shell.Send(OnHosts({"a", "b"}));
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  EXPECT_EQ(shell.named[""], shell.tasks);
}

TEST(NamedHandlersTest, WhoHasLeftIsNamedNoMore) {
  Shell shell(JobOnHosts());
  shell.Send(OnHosts({"a", "b"}));
  HandlersSeen left = OnHosts({"a", "b", "c"});
  left.handlers.erase("id0");
  shell.Send(left);
  shell.named.clear();
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  // Tasks that were put before may still name it.
  EXPECT_LT(shell.named["id0"], shell.named["id1"] + shell.named["id2"]);
  EXPECT_GT(shell.named["id1"] + shell.named["id2"], 0u);
}

// A handler on whose host somebody plays a game keeps its tasks no longer.
TEST(NamedHandlersTest, WhoHasBecomeSlowIsNamedLess) {
  Shell shell(JobOnHosts());
  shell.Send(OnHosts({"a", "b"}));
  shell.RunUntil(1);
  EXPECT_GT(shell.named["id0"], 0u);
  HandlersSeen slow = OnHosts({"a", "b"});
  slow.handlers.at("id0").speed = kMinSpeed;
  shell.Send(slow);
  shell.named.clear();
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  // Tasks of the step that was put before may still name it.
  EXPECT_LT(2 * shell.named["id0"], shell.named["id1"]);
  EXPECT_TRUE(shell.moved.empty()) << "the steps are not cut anew";
}

// The data can then arrive while the handlers still compute. A step with fewer rows is cut
// differently.
TEST(NamedHandlersTest, HandlersHearOfTheNextStepsDataUnlessItHasOtherRows) {
  ManagerConfig config = JobOnHosts();
  config.least_removed_bytes = 1;
  config.limits.resident_steps = 4;
  Shell shell(std::move(config));
  shell.Send(OnHosts({"a", "b"}));
  shell.RunAll();
  ASSERT_TRUE(shell.done);
  const auto of_step = [](const std::set<tuplespace::Key>& keys, std::int64_t step) {
    std::set<tuplespace::Key> found;
    for (const tuplespace::Key& key : keys) {
      const auto fields = key.Fields();
      const bool is_of_batch = fields.size() > 3 && std::get<std::int64_t>(fields[1]) == step &&
                               !TileOfKey(key) && std::get<std::int64_t>(fields[3]) == 0;
      if (is_of_batch) found.insert(key);
    }
    return found;
  };
  for (std::int64_t step = 0; step < 6; ++step) {
    std::set<tuplespace::Key> data = of_step(shell.reads, step);
    std::erase_if(data, [&](const auto& key) { return shell.may_be_resident.contains(key); });
    ASSERT_FALSE(data.empty());
    const bool is_told = step == 1 || step == 4;  // of the 3 in an epoch
    EXPECT_EQ(of_step(shell.told, step), is_told ? data : std::set<tuplespace::Key>()) << step;
  }
}

// A task of a step whose tasks read more data than a task may announce.
PlannedTask ReadingMuch(std::int64_t number) {
  constexpr std::int32_t kWidth = 64;
  PlannedTask planned;
  planned.key = tuplespace::Key{"run", std::int64_t{0}, "task", "exact", number};
  const auto rows = static_cast<std::int32_t>(kMaxAhead + 1);
  Task& task = planned.task;
  task.buffers = {{1, 1}, {rows, kWidth}};
  for (std::int32_t row = 0; row < rows; ++row) {
    planned.inputs.push_back(
        tuplespace::Key{"run", std::int64_t{0}, "act", number, std::int64_t{row}});
    task.pieces.push_back({static_cast<std::uint32_t>(row), 1, row, 0, 1, kWidth});
  }
  Call fill;
  fill.kernel = Kernel::kFill;
  fill.views = {{0, 0, 0, 1, 1}};
  task.calls = {fill};
  task.outputs = {{tuplespace::Key{"run", std::int64_t{0}, "made", number}, fill.views[0]}};
  return planned;
}

TEST(NamedHandlersTest, NoTaskAnnouncesMoreDataThanHandlersTake) {
  ManagerConfig config = JobOnHosts();
  config.least_removed_bytes = 1;
  config.limits.resident_steps = 4;
  std::vector<PlannedTask> step = {ReadingMuch(0), ReadingMuch(1)};
  NamedHandlers named;
  named.Find(OnHosts({"a", "b"}).handlers, 2, config, step);
  named.NameDataAhead(&step);
  std::size_t most = 0;
  for (const PlannedTask& task : step) most = std::max(most, task.task.ahead.size());
  EXPECT_EQ(most, kMaxAhead);
}

TEST(NamedHandlersTest, ThePlanWaitsForHandlersThatJoinSoonAfterTheFirst) {
  ManagerConfig config = JobOnHosts();
  config.fixed_handlers = false;
  Shell shell(std::move(config));
  shell.Send(OnHosts({"a"}), 0);
  shell.Send(ClockTick{}, 400'000);
  EXPECT_FALSE(shell.core.plan());
  shell.Send(OnHosts({"a", "b"}), 450'000);
  shell.Send(ClockTick{}, 900'000);
  EXPECT_FALSE(shell.core.plan());
  shell.Send(ClockTick{}, 950'000);
  EXPECT_TRUE(shell.core.plan());
  EXPECT_EQ(shell.named[""], 0u) << "also for the first tiles";
}

TEST(NamedHandlersTest, ThePlanWaitsAWhileForLinksThatAreNotMeasuredYet) {
  ManagerConfig config = JobOnHosts();
  config.fixed_handlers = false;
  const HandlersSeen measured = OnHosts({"a", "b"});
  HandlersSeen unknown = measured;
  unknown.handlers.at("id1").link_ns_per_kib = 0;
  for (const bool ends : {true, false}) {
    Shell shell(ManagerConfig{config});
    shell.Send(HandlersSeen{unknown}, 0);
    shell.Send(ClockTick{}, 2'000'000);
    EXPECT_FALSE(shell.core.plan());
    if (ends) shell.Send(HandlersSeen{measured}, 2'100'000);
    shell.Send(ClockTick{}, 2'900'000);
    EXPECT_EQ(shell.core.plan().has_value(), ends);
    shell.Send(ClockTick{}, 3'000'000);
    EXPECT_TRUE(shell.core.plan()) << "then it counts as a usual link";
  }
}

}  // namespace
}  // namespace acan
