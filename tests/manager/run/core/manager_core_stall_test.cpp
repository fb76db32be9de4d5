// A run without progress: it reports that, cuts the steps for the active handlers, goes back, or
// ends.
#include <gmock/gmock.h>

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
  Shell shell_;
  std::int64_t now_us_ = 0;
};

TEST_F(StallTest, WhoOnlySaysThatItHasRoomIsNotPlannedWith) {
  shell_.Send(SmallAndBoaster());
  ASSERT_TRUE(shell_.core.plan());
  ASSERT_GT(shell_.core.plan()->largest_need_bytes, kMiB / 8) << "cut for the boaster";
  Pass(11, {.ready = 4, .leased = 0});
  ASSERT_THAT(shell_.stalled, SizeIs(1));
  EXPECT_TRUE(shell_.stalled[0].asks_who_works);
  shell_.answers.clear();
  shell_.Send(WorkersSeen{{"id0"}}, now_us_);
  EXPECT_THAT(shell_.Said(), HasSubstr("has done none"));
  EXPECT_LE(shell_.core.plan()->largest_need_bytes, kMiB / 8);
  ASSERT_THAT(shell_.moved, SizeIs(1));
  // The boaster is not used again, although it is still there.
  shell_.Send(SmallAndBoaster(), now_us_);
  EXPECT_THAT(shell_.moved, SizeIs(1));
}

TEST_F(StallTest, WhoWorksIsPlannedWith) {
  shell_.Send(SmallAndBoaster());
  Pass(11, {.ready = 4, .leased = 0});
  shell_.Send(WorkersSeen{{"id0", "id1"}}, now_us_);
  EXPECT_THAT(shell_.moved, IsEmpty());
}

TEST_F(StallTest, OneHandlerAloneIsWaitedFor) {
  shell_.Send(Handlers({1 << 30}));
  Pass(60, {.ready = 4, .leased = 0});
  shell_.Send(WorkersSeen{}, now_us_);
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
