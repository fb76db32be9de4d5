// Handlers with processors of their own: which one gets which, when, and what the system reports.
#include "own_processors.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>

#include "gtest/gtest.h"
#include "machine.h"
#include "program.h"

namespace acan::cli {
namespace {

using testing::TestFolder;

TEST(ShareOut, GivesEachHandlerAsManyAsItHasThreads) {
  using Shares = std::vector<Processors>;
  EXPECT_EQ(ShareOut({0, 1}, {1, 1}), (Shares{{0}, {1}}));
  EXPECT_EQ(ShareOut({2, 3, 7, 8}, {2, 1, 1}), (Shares{{2, 3}, {7}, {8}}));
}

TEST(ShareOut, GivesNobodyAnythingWhereTheyDoNotAddUp) {
  EXPECT_TRUE(ShareOut({0, 1}, {2}).empty());
  EXPECT_TRUE(ShareOut({0, 1, 2}, {1, 1}).empty());
  EXPECT_TRUE(ShareOut({0, 1}, {1, 1, 1, 1}).empty());
  EXPECT_TRUE(ShareOut({0, 1}, {}).empty());
}

// Two processors. In each second this run computes for `own` seconds and other programs for
// `others`.
class Policy : public ::testing::Test {
 protected:
  bool Second(double own, double others) {
    now_s_ += 1;
    own_s_ += own;
    busy_s_ += own + others;
    return policy_.Look(now_s_, busy_s_, own_s_);
  }

  KeepPolicy policy_{2};
  double now_s_ = 1000, busy_s_ = 5000, own_s_ = 0;
};

TEST_F(Policy, KeepsOnceTheOthersNeedLittle) {
  EXPECT_FALSE(Second(0, 0)) << "nothing is known of the time before the first look";
  EXPECT_TRUE(Second(1.9, 0.05));
  EXPECT_TRUE(Second(1.7, 0.2));
}

TEST_F(Policy, GivesUpAtOnceForOthersAndWaitsUntilTheyAreGone) {
  Second(0, 0);
  ASSERT_TRUE(Second(1.9, 0));
  EXPECT_FALSE(Second(1.5, 0.5));
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(Second(1.9, 0)) << i;
  EXPECT_TRUE(Second(1.9, 0));
}

TEST_F(Policy, WaitsAnewWheneverOthersComeBack) {
  Second(0, 0);
  Second(1, 1);
  for (int i = 0; i < 9; ++i) Second(1.9, 0);
  EXPECT_FALSE(Second(1, 1));
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(Second(1.9, 0)) << i;
  EXPECT_TRUE(Second(1.9, 0));
}

TEST_F(Policy, LearnsNothingFromALookAtTheSameMoment) {
  Second(0, 0);
  ASSERT_TRUE(Second(1.9, 0));
  EXPECT_TRUE(policy_.Look(now_s_, busy_s_ + 5, own_s_));
  EXPECT_FALSE(policy_.Look(now_s_ + 1, busy_s_ + 5, own_s_)) << "the next look sees it";
}

class ProcFiles : public ::testing::Test {
 protected:
  const TestFolder folder_;
  const double tick_s_ = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
};

TEST_F(ProcFiles, BusyTimeIsAllButIdleAndWaiting) {
  folder_.Write("proc/stat",
                "cpu  99 99 99 99 99 99 99 99 99 99\n"
                "cpu0 1 2 4 1000 2000 8 16 32 4000 8000\n"
                "cpu1 100 0 0 0 0 0 0 0 0 0\n"
                "cpu10 10000 0 0 0 0 0 0 0 0 0\n"
                "intr 5\n");
  EXPECT_DOUBLE_EQ(BusySeconds({0}, folder_.path()).value(), 63 * tick_s_);
  EXPECT_DOUBLE_EQ(BusySeconds({0, 1}, folder_.path()).value(), 163 * tick_s_);
  EXPECT_EQ(BusySeconds({0, 2}, folder_.path()), std::nullopt) << "there is no processor 2";
}

TEST_F(ProcFiles, NothingIsKnownWithoutThem) {
  EXPECT_EQ(BusySeconds({0}, folder_.path()), std::nullopt);
  EXPECT_EQ(ComputedSeconds(1, folder_.path()), std::nullopt);
  folder_.Write("proc/1/stat", "1 (cut");
  EXPECT_EQ(ComputedSeconds(1, folder_.path()), std::nullopt);
  folder_.Write("proc/1/stat", "1 (cut) S 1 1 0");
  EXPECT_EQ(ComputedSeconds(1, folder_.path()), std::nullopt);
}

TEST_F(ProcFiles, AProgramsNameMayHaveBracketsAndSpaces) {
  folder_.Write("proc/7/stat", "7 (a) R 1 (b) S 1 7 7 0 -1 64 5 0 0 0 30 12 0 0 20 0 5 0 99\n");
  EXPECT_DOUBLE_EQ(ComputedSeconds(7, folder_.path()).value(), 42 * tick_s_);
}

TEST(OwnTime, IsWhatTheSystemCounts) {
  const auto cpu_s = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  const double begin_s = cpu_s();
  while (cpu_s() < begin_s + 0.1) {
  }
  const double before_s = cpu_s();
  const double seen_s = ComputedSeconds(::getpid()).value();
  EXPECT_GT(seen_s, before_s - 0.05);
  EXPECT_LT(seen_s, cpu_s() + 0.05);
  EXPECT_GT(BusySeconds(ThisMachine().cpus).value(), 0);
}

// A process that sleeps until it is killed.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) ::pause();
    }
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  Processors MayRunOn() const {
    cpu_set_t set;
    CPU_ZERO(&set);
    Processors found;
    if (::sched_getaffinity(pid_, sizeof(set), &set) != 0) return found;
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) found.push_back(i);
    }
    return found;
  }

 private:
  const pid_t pid_;
};

TEST(KeepOn, MovesAProcessThereAndBack) {
  const Processors usable = ThisMachine().cpus;
  const Sleeper sleeper;
  KeepOn(sleeper.pid(), {usable.back()});
  EXPECT_EQ(sleeper.MayRunOn(), Processors{usable.back()});
  KeepOn(sleeper.pid(), usable);
  EXPECT_EQ(sleeper.MayRunOn(), usable);
}

TEST_F(ProcFiles, HandlersKeepToTheirProcessorsUntilOthersCompute) {
  const Processors usable = ThisMachine().cpus;
  if (usable.size() < 2) GTEST_SKIP() << "this machine has one processor";
  const auto rest = static_cast<int>(usable.size()) - 1;
  const auto busy = [&](int ticks) {
    std::string text = "cpu 0\n";
    for (const int cpu : usable) {
      text += "cpu" + std::to_string(cpu) + " " + std::to_string(ticks) + " 0 0 9 9 0 0 0\n";
    }
    folder_.Write("proc/stat", text);
  };
  const Sleeper first, second, broker;
  OwnProcessors processors(usable, {1, rest}, folder_.path());
  ASSERT_TRUE(processors.CanKeep());
  busy(1000);
  const auto look = [&] { processors.Look({first.pid(), second.pid()}, {broker.pid()}); };
  look();
  EXPECT_EQ(first.MayRunOn(), usable) << "nothing is known of others yet";
  look();
  EXPECT_EQ(first.MayRunOn(), Processors{usable.front()});
  EXPECT_EQ(second.MayRunOn(), Processors(usable.begin() + 1, usable.end()));
  EXPECT_EQ(broker.MayRunOn(), usable);
  const Sleeper restarted;
  processors.Look({0, restarted.pid()}, {broker.pid()});
  EXPECT_EQ(restarted.MayRunOn(), second.MayRunOn()) << "one that was started again";
  busy(100'000);
  look();
  EXPECT_EQ(first.MayRunOn(), usable);
  EXPECT_EQ(second.MayRunOn(), usable);
}

TEST(KeepOn, AProcessThatIsGoneIsNoError) {
  pid_t gone = 0;
  {
    const Sleeper sleeper;
    gone = sleeper.pid();
  }
  EXPECT_NO_THROW(KeepOn(gone, ThisMachine().cpus));
}

}  // namespace
}  // namespace acan::cli
