// A run without progress: it reports that, cuts the steps for the active handlers, goes back, or
// ends.
#include <gmock/gmock.h>

#include <algorithm>
#include <utility>

#include "manager_shell.h"

namespace acan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::int64_t kTickUs = 250'000;

// A small handler, and one that claims unlimited room and speed.
HandlersSeen SmallAndBoaster() {
  HandlersSeen seen = Handlers({kMiB / 8, 1ull << 40});
  seen.handlers.at("id1").gflops = 1e9;
  return seen;
}

class StallTest : public ::testing::Test {
 protected:
  StallTest() : shell_(SmallJob()) {}
  // Lets `seconds` pass without answers.
  void Pass(int seconds, const RunTasksSeen& seen) {
    for (const std::int64_t end_us = now_us_ + seconds * 1'000'000; now_us_ < end_us;) {
      now_us_ += kTickUs;
      shell_.Send(seen, now_us_);
      shell_.Send(ClockTick{}, now_us_);
    }
  }
  // The handler is there for a while, then away, again and again, and completes nothing.
  void ComeAndGo(int times, std::int64_t there_us, std::int64_t away_us) {
    const auto pass = [&](std::int64_t for_us, const HandlersSeen& seen) {
      shell_.Send(seen, now_us_);
      for (const std::int64_t end_us = now_us_ + for_us; now_us_ < end_us;) {
        now_us_ += kTickUs;
        shell_.Send(RunTasksSeen{.ready = 4, .leased = seen.handlers.size()}, now_us_);
        shell_.Send(ClockTick{}, now_us_);
      }
    };
    for (int i = 0; i < times; ++i) {
      pass(there_us, Handlers({1 << 30}));
      pass(away_us, {});
    }
  }
  std::size_t TimesSaid(const std::string& text) const {
    const std::vector<std::string>& said = shell_.said;
    return static_cast<std::size_t>(std::count_if(
        said.begin(), said.end(), [&](const auto& line) { return line.starts_with(text); }));
  }
  // `client` completes the next task.
  void DoOne(const std::string& client) {
    while (!std::holds_alternative<ChunkDone>(shell_.answers.front())) {
      const ManagerEvent event = shell_.answers.front();
      shell_.answers.pop_front();
      shell_.Send(event, now_us_);
    }
    auto done = std::get<ChunkDone>(shell_.answers.front());
    shell_.answers.pop_front();
    done.put_by = {client};
    for (SeenResult& result : done.results) result.put_by = client;
    shell_.Send(done, now_us_);
  }
  // The run went back, and begins again.
  void BeginAgain() {
    while (!std::holds_alternative<WeightsReady>(shell_.answers.front())) {
      shell_.answers.pop_front();
    }
    const ManagerEvent event = shell_.answers.front();
    shell_.answers.pop_front();
    shell_.Send(event, now_us_);
  }
  bool Counts(const std::string& client) const { return shell_.core.handlers().contains(client); }
  bool IsCutForTheSmall() const { return shell_.core.plan()->largest_need_bytes <= kMiB / 8; }
  Shell shell_;
  std::int64_t now_us_ = 0;
};

constexpr RunTasksSeen kNobodyTakesTasks{.ready = 4, .leased = 0};

TEST_F(StallTest, WhoOnlySaysThatItHasRoomIsNotPlannedWith) {
  shell_.Send(SmallAndBoaster());
  ASSERT_TRUE(shell_.core.plan());
  ASSERT_FALSE(IsCutForTheSmall()) << "it is cut for the boaster";
  Pass(11, kNobodyTakesTasks);
  ASSERT_THAT(shell_.stalled, SizeIs(1));
  EXPECT_THAT(shell_.Said(), HasSubstr("handler 1 (id1) has memory for all tasks but takes none"));
  EXPECT_TRUE(IsCutForTheSmall());
  ASSERT_THAT(shell_.moved, SizeIs(1));
  // The boaster is not used again, although it is still there.
  shell_.Send(SmallAndBoaster(), now_us_);
  EXPECT_THAT(shell_.moved, SizeIs(1));
}

// Handlers that work may be busy with other runs for a while.
TEST_F(StallTest, WhoHasWorkedIsWaitedForLongerButNotForEver) {
  shell_.Send(SmallAndBoaster());
  DoOne("id1");
  Pass(55, kNobodyTakesTasks);
  EXPECT_THAT(shell_.moved, IsEmpty());
  EXPECT_THAT(shell_.stalled, SizeIs(2)) << "it is said twice a minute";
  Pass(10, kNobodyTakesTasks);
  EXPECT_THAT(shell_.moved, SizeIs(1));
  EXPECT_TRUE(IsCutForTheSmall());
  BeginAgain();
  Pass(9, kNobodyTakesTasks);
  EXPECT_THAT(shell_.moved, SizeIs(1));
}

// Also without audits.
TEST_F(StallTest, WhoWasLeftOutReturnsWithItsNextTask) {
  shell_.Send(SmallAndBoaster());
  Pass(11, kNobodyTakesTasks);
  BeginAgain();
  shell_.Send(SmallAndBoaster(), now_us_);
  EXPECT_FALSE(Counts("id1"));
  DoOne("id1");
  shell_.Send(SmallAndBoaster(), now_us_);
  EXPECT_TRUE(Counts("id1"));
  EXPECT_TRUE(IsCutForTheSmall()) << "the plan still fits";
}

TEST_F(StallTest, ANewIdOfAnIdleKeyDoesNotCountUntilItWorks) {
  HandlersSeen seen = SmallAndBoaster();
  const Capacity boast = seen.handlers.extract("id1").mapped();
  seen.handlers.emplace("evil/1", boast);
  shell_.Send(seen);
  Pass(11, kNobodyTakesTasks);
  ASSERT_THAT(shell_.moved, SizeIs(1));
  BeginAgain();
  seen.handlers.erase("evil/1");
  shell_.Send(seen, now_us_);
  for (const char* next : {"evil/2", "evil/3"}) seen.handlers.emplace(next, boast);
  seen.handlers.emplace("other/1", boast);
  shell_.Send(seen, now_us_);
  EXPECT_FALSE(Counts("evil/2"));
  EXPECT_TRUE(Counts("other/1")) << "it has another key";
  DoOne("evil/2");
  shell_.Send(seen, now_us_);
  EXPECT_TRUE(Counts("evil/2"));
  EXPECT_FALSE(Counts("evil/3"));
}

// Handlers that share their key with a boaster are not cut off.
TEST_F(StallTest, WhereAllHaveOneKeyOnlyTheIdleOneIsLeftOut) {
  HandlersSeen seen;
  for (const auto& [id, capacity] : SmallAndBoaster().handlers) {
    seen.handlers.emplace("lab/" + id, capacity);
  }
  shell_.Send(seen);
  DoOne("lab/id1");
  Pass(61, kNobodyTakesTasks);
  EXPECT_TRUE(IsCutForTheSmall());
  shell_.Send(seen, now_us_);
  EXPECT_TRUE(Counts("lab/id0"));
  EXPECT_FALSE(Counts("lab/id1"));
}

// A plan for a handler that was left out earlier is better than none.
TEST_F(StallTest, WhoWasLeftOutEarlierCountsAgainIfNobodyElseIsLeft) {
  HandlersSeen seen = SmallAndBoaster();
  seen.handlers.emplace("id2", seen.handlers.at("id1"));
  shell_.Send(seen);
  DoOne("id2");
  seen.handlers.erase("id0");
  shell_.Send(seen, now_us_);
  Pass(11, kNobodyTakesTasks);
  EXPECT_FALSE(Counts("id1"));
  EXPECT_THAT(shell_.moved, IsEmpty()) << "id2 has room";
  seen.handlers.at("id1").memory_bytes = kMiB / 8;  // it is honest now
  shell_.Send(seen, now_us_);
  EXPECT_FALSE(Counts("id1"));
  Pass(50, kNobodyTakesTasks);
  EXPECT_FALSE(Counts("id2"));
  EXPECT_TRUE(Counts("id1"));
  EXPECT_TRUE(IsCutForTheSmall());
}

TEST_F(StallTest, WithoutAPlanForTheOthersNothingChanges) {
  HandlersSeen seen = SmallAndBoaster();
  seen.handlers.at("id0").memory_bytes = 1000;
  shell_.Send(seen);
  Pass(100, kNobodyTakesTasks);
  EXPECT_THAT(shell_.moved, IsEmpty());
  EXPECT_TRUE(Counts("id1"));
  EXPECT_EQ(shell_.gave_up, "");
  EXPECT_EQ(shell_.stalled.size(), 4u) << "it is said twice a minute";
}

// It alone has memory for the task, so it may extend its lease again and again.
TEST_F(StallTest, ATaskThatIsKeptIsNotWaitedForForEver) {
  shell_.Send(SmallAndBoaster());
  DoOne("id1");
  RunTasksSeen seen{.ready = 1, .leased = 1, .all = 10};
  Pass(590, seen);
  EXPECT_THAT(shell_.moved, IsEmpty());
  seen.all = 9;  // a slow handler has completed one
  Pass(590, seen);
  EXPECT_THAT(shell_.moved, IsEmpty());
  Pass(20, seen);
  EXPECT_THAT(shell_.moved, SizeIs(1));
  EXPECT_TRUE(IsCutForTheSmall());
}

TEST_F(StallTest, OneHandlerAloneIsWaitedFor) {
  shell_.Send(Handlers({1 << 30}));
  Pass(60, kNobodyTakesTasks);
  EXPECT_THAT(shell_.moved, IsEmpty());
  EXPECT_EQ(shell_.gave_up, "");
  EXPECT_GE(shell_.stalled.size(), 2u) << "it is said again";
}

TEST_F(StallTest, ALongTaskIsWaitedFor) {
  shell_.Send(Handlers({1 << 30}));
  Pass(300, {.ready = 0, .leased = 1});
  EXPECT_THAT(shell_.moved, IsEmpty());
  EXPECT_EQ(shell_.gave_up, "");
  EXPECT_GE(shell_.stalled.size(), 9u);
}

// As if each task ended its handler, for lack of memory.
TEST_F(StallTest, HandlersThatDieOfEachTaskAreCounted) {
  ComeAndGo(10, 1'500'000, 1'500'000);
  ASSERT_THAT(shell_.stalled, SizeIs(1));
  EXPECT_EQ(shell_.stalled[0].lost.count, 3u);
  EXPECT_EQ(shell_.stalled[0].lost.last, "handler 0 (id0)");
  EXPECT_THAT(shell_.moved, IsEmpty());
}

TEST_F(StallTest, SoAreThoseThatStayAwayForLonger) {
  ComeAndGo(10, 1'500'000, 3'000'000);
  EXPECT_THAT(shell_.stalled, SizeIs(1));
  EXPECT_EQ(TimesSaid("no handler has joined yet"), 0u);
  EXPECT_EQ(TimesSaid("all handlers are gone; waiting for one (start: acan handler"), 2u)
      << "in 45 s";
  EXPECT_EQ(TimesSaid("a handler has joined: continuing"), 2u);
}

TEST_F(StallTest, WithoutHandlersForLongThisIsSaidAgain) {
  ComeAndGo(2, 1'500'000, 3'000'000);
  EXPECT_EQ(TimesSaid("all handlers are gone"), 1u);
  Pass(8, {});
  EXPECT_EQ(TimesSaid("all handlers are gone"), 2u);
  EXPECT_THAT(shell_.stalled, IsEmpty());
}

TEST(StallOfALocalRun, DoesNotAskTheUserToStartHandlers) {
  ManagerConfig config = SmallJob();
  config.fixed_handlers = true;
  Shell shell(std::move(config));
  shell.Send(Handlers({1 << 30}));
  shell.Send(HandlersSeen{}, kTickUs);
  shell.Send(ClockTick{}, 3'000'000);
  EXPECT_THAT(shell.said, ::testing::Contains("all handlers are gone; waiting for one"));
}

// If all were lost, a plan for the first one that returns would stay in force.
TEST_F(StallTest, ASmallHandlerThatReturnsFirstIsNotCutForAtOnce) {
  const HandlersSeen both = SmallAndBoaster();
  shell_.Send(both);
  ASSERT_TRUE(shell_.core.plan());
  ASSERT_FALSE(IsCutForTheSmall());
  shell_.Send(HandlersSeen{}, now_us_);
  Pass(4, {});
  HandlersSeen small = both;
  small.handlers.erase("id1");
  shell_.Send(small, now_us_);
  Pass(1, {});
  shell_.Send(both, now_us_);
  EXPECT_THAT(shell_.moved, IsEmpty());
  shell_.Send(small, now_us_);
  Pass(3, {});
  EXPECT_THAT(shell_.moved, SizeIs(1)) << "but it is not waited for the large one for ever";
}

TEST_F(StallTest, WhatIsGoneIsDoneAgainAndThenTheRunEnds) {
  shell_.Send(Handlers({1 << 30}));
  const RunTasksSeen nothing{.ready = 0, .leased = 0};
  Pass(11, nothing);
  EXPECT_THAT(shell_.moved, SizeIs(1));
  EXPECT_THAT(shell_.Said(), HasSubstr("going back"));
  for (int i = 0; i < 4 && shell_.gave_up.empty(); ++i) {
    // The run went back, and again makes no progress.
    while (!shell_.answers.empty()) {
      const ManagerEvent event = shell_.answers.front();
      shell_.answers.pop_front();
      if (std::holds_alternative<WeightsReady>(event)) shell_.Send(event, now_us_);
    }
    Pass(11, nothing);
  }
  EXPECT_THAT(shell_.gave_up, HasSubstr("cannot be finished"));
  EXPECT_THAT(shell_.moved, SizeIs(2));
}

TEST_F(StallTest, HandlersThatAreTooSmallForAnyPlanAreNamedAgainAndAgain) {
  shell_.Send(Handlers({2048, 1024}));
  Pass(10, {});
  EXPECT_THAT(shell_.Said(), HasSubstr("all handlers are too small: the largest task needs "));
  EXPECT_THAT(shell_.Said(), HasSubstr("and handler 0 offers the most, 2KiB"));
  EXPECT_THAT(shell_.Said(),
              HasSubstr("; waiting for a handler with more memory, because acan finds "
                        "no smaller train.block or train.batch that is enough"));
  shell_.said.clear();
  Pass(40, {});
  EXPECT_THAT(shell_.Said(), HasSubstr("all handlers are too small"));
  EXPECT_FALSE(shell_.core.plan());
  shell_.said.clear();
  shell_.Send(Handlers({2048, 1 << 30}), now_us_);
  EXPECT_TRUE(shell_.core.plan());
  Pass(40, {.ready = 4, .leased = 1});
  EXPECT_THAT(shell_.Said(), ::testing::Not(HasSubstr("too small")));
}

TEST_F(StallTest, ItSaysWhyTheHandlersThatAreThereAreNotEnough) {
  HandlersSeen seen;
  seen.of_other_jobs = 2;
  shell_.Send(seen);
  Pass(10, {});
  EXPECT_THAT(shell_.Said(), HasSubstr("2 limited to other jobs by their keys"));
  shell_.said.clear();
  seen = Handlers({1 << 30});
  seen.handlers.at("id0").exact = false;
  shell_.Send(seen, now_us_);
  Pass(40, {});
  EXPECT_THAT(shell_.Said(), HasSubstr("1 not exact, or quarantined"));
  shell_.said.clear();
  shell_.Send(HandlersSeen{}, now_us_);
  Pass(40, {});
  EXPECT_THAT(shell_.Said(), HasSubstr("no handler has joined yet"));
}

}  // namespace
}  // namespace acan
