#include "space_notices.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/names.h"
#include "acan/core/task.h"
#include "lone_run.h"

namespace acan {
namespace {

using tuplespace::Key;
using tuplespace::Notice;

class SpaceNoticesTest : public ::testing::Test {
 protected:
  static Notice Parked() { return {Notice::Kind::kParked, Key{"task", 1}, "handler", "bad input"}; }
  static Notice Orphaned() { return {Notice::Kind::kOrphaned, Key{"task", 2}, "", "input"}; }

  LoneRun run_;  // the test provides the notices
  SpaceNotices notices_{run_.context, [](ManagerEvent) {}, [](const ResultConflict&) {}, {}};
};

TEST_F(SpaceNoticesTest, ATaskThatFailsOnAllEndsTheRun) {
  EXPECT_THROW(notices_.On(Parked(), nullptr, false), JobFailed);
  EXPECT_THROW(notices_.On(Orphaned(), nullptr, false), JobFailed);
}

// Every handler refuses such a task, so the last one to do so is named, but not to blame.
TEST_F(SpaceNoticesTest, ARefusedDescriptionIsNoFaultOfAHandler) {
  Notice notice = Parked();
  try {
    DecodeTask(tuplespace::Payload::Copy("no task"), 0);
  } catch (const std::invalid_argument& refused) {
    notice.text = refused.what();
  }
  try {
    notices_.On(std::move(notice), nullptr, false);
    ADD_FAILURE() << "the run goes on";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("a defect of acan"), std::string::npos) << text;
    EXPECT_NE(text.find("\"handler\""), std::string::npos) << "it may be the only one: " << text;
    EXPECT_EQ(text.find("handler handler"), std::string::npos) << text;
  }
}

// While the quarantine is put into the space, notices of tasks that failed because of the liar may
// still arrive.
TEST_F(SpaceNoticesTest, AfterAVerdictNoTaskEndsTheRun) {
  notices_.OnVerdict();
  EXPECT_NO_THROW(notices_.On(Parked(), nullptr, false));
  EXPECT_NO_THROW(notices_.On(Orphaned(), nullptr, false));
  EXPECT_NO_THROW(notices_.FollowParked(nullptr));
}

// A stalled link may deliver them only now, when the audits of that time are forgotten.
TEST_F(SpaceNoticesTest, WhileTheRunGoesBackNoTaskOfBeforeEndsIt) {
  notices_.OnGoingBack();
  EXPECT_NO_THROW(notices_.On(Parked(), nullptr, false));
  EXPECT_NO_THROW(notices_.On(Orphaned(), nullptr, false));
  notices_.OnWentBack(false);
  EXPECT_NO_THROW(notices_.FollowParked(nullptr));
  EXPECT_THROW(notices_.On(Parked(), nullptr, false), Error);
  EXPECT_THROW(notices_.On(Orphaned(), nullptr, false), Error);
}

// Only far slower handlers are left that have not failed the task, and it excludes them.
TEST_F(SpaceNoticesTest, ATaskThatFailsWhereOthersAreExcludedTakesThemBack) {
  std::vector<std::string> wanted;
  const auto post = [&](const ManagerEvent& event) {
    wanted.push_back(std::get<SparesWanted>(event).why);
  };
  SpaceNotices notices{run_.context, post, [](const ResultConflict&) {}, {}};
  notices.On(Parked(), nullptr, true);
  notices.On(Parked(), nullptr, true);
  ASSERT_EQ(wanted.size(), 1u);
  EXPECT_NE(wanted[0].find("failed too often"), std::string::npos) << wanted[0];
  EXPECT_NO_THROW(notices.FollowParked(nullptr));
  notices.OnGoingBack();
  notices.OnWentBack(false);
  EXPECT_THROW(notices.On(Parked(), nullptr, false), JobFailed);
}

// A client may send the same wrong result as often as it likes.
TEST_F(SpaceNoticesTest, AConflictIsLoggedOnce) {
  const Notice notice{Notice::Kind::kConflict, Key{"result", 1}, "evil/1", "the hashes differ"};
  std::vector<std::string> lines;
  RunSettings settings;
  settings.log = [&lines](const std::string& line) { lines.push_back(line); };
  RunContext context{settings,
                     {.endpoint = "ipc:///nobody-is-there", .name = "test", .id = {}},
                     run_.job,
                     BuildModel(run_.job),
                     run_.data};
  SpaceNotices notices{context, [](ManagerEvent) {}, [](const ResultConflict&) {}, {}};
  for (int i = 0; i < 3; ++i) notices.On(Notice(notice), nullptr, false);
  EXPECT_EQ(lines.size(), 1u);
  EXPECT_EQ(notices.conflicts().size(), 1u);
}

// A key may have any number of clients, and each may be mistrusted again and again.
TEST_F(SpaceNoticesTest, TheClientsOfOneKeyDoNotFillTheLog) {
  std::vector<std::string> lines;
  RunSettings settings;
  settings.log = [&lines](const std::string& line) { lines.push_back(line); };
  RunContext context{settings,
                     {.endpoint = "ipc:///nobody-is-there", .name = "test", .id = {}},
                     run_.job,
                     BuildModel(run_.job),
                     run_.data};
  SpaceNotices notices{context, [](ManagerEvent) {}, [](const ResultConflict&) {}, {}};
  constexpr std::size_t kNotices = 10'000;
  for (std::size_t i = 0; i < kNotices; ++i) {
    notices.On({Notice::Kind::kMistrusted, Key{"task", 1}, "evil/" + std::to_string(i), "no"},
               nullptr, false);
  }
  EXPECT_GE(lines.size(), 1u);
  EXPECT_LT(lines.size(), kNotices / 10) << "some lines at once, and then one in a second";
  const std::size_t before = lines.size();
  notices.On({Notice::Kind::kMistrusted, Key{"task", 1}, "other/1", "no"}, nullptr, false);
  EXPECT_EQ(lines.size(), before + 1);
}

TEST_F(SpaceNoticesTest, ADisputeThatAuditsForgetIsKeptAsAConflict) {
  const AuditConflict conflict{Key{"result", 1}, "a and b differ"};
  notices_.OnUndecided(conflict);
  notices_.OnUndecided(conflict);
  ASSERT_EQ(notices_.conflicts().size(), 1u);
  EXPECT_EQ(notices_.conflicts()[0].key, conflict.result.ToString());
  EXPECT_EQ(notices_.conflicts()[0].text, conflict.text);
}

TEST_F(SpaceNoticesTest, AStepWithAnotherOutcomeIsAConflictInExactPrecisionOnly) {
  notices_.OnNotRepeated(3, "the loss differs");
  ASSERT_EQ(notices_.conflicts().size(), 1u);
  EXPECT_EQ(notices_.conflicts()[0].key, "step 3");
  EXPECT_EQ(notices_.conflicts()[0].text, "the loss differs");
  run_.job.training.precision = Precision::kFast;
  notices_.OnNotRepeated(4, "the loss differs");
  EXPECT_EQ(notices_.conflicts().size(), 1u);
}

}  // namespace
}  // namespace acan
