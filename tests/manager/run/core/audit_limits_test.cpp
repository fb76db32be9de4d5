// Audits with more cases, and more handlers, than may vote or be named at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "acan/manager/audits.h"
#include "acan/manager/contributors.h"
#include "tuplespace/space_limits.h"

namespace acan {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tuplespace::Key;

class AuditLimits : public ::testing::Test {
 protected:
  static PlannedTask TaskOf(std::int64_t number) {
    PlannedTask task;
    task.key = Key{"run", 5, "task", "exact", "forward", number};
    task.task.buffers = {{4, 4}};
    task.task.outputs.push_back({Key{"run", 5, "act", number}, {0, 0, 0, 4, 4}, true});
    return task;
  }
  static std::vector<SeenResult> ResultOf(const PlannedTask& task, const std::string& by,
                                          std::uint64_t value) {
    const acan::Output& output = task.task.outputs.front();
    return {{output.key, by, tuplespace::PayloadHash{value, 0}, output.view.bytes()}};
  }
  void Compute(const PlannedTask& task, const std::string& by, std::uint64_t value = 1) {
    audits_.OnPut(1, task);
    audits_.OnResults(ResultOf(task, by, value));
  }
  void ComputeMany(std::int64_t first, std::size_t count, const std::string& by) {
    for (std::size_t i = 0; i < count; ++i) Compute(TaskOf(first + std::int64_t(i)), by);
  }

  static constexpr std::uint64_t kLarge = 1 << 20;
  static constexpr std::uint64_t kSmall = 1;  // too small for any task
  Audits audits_{1.0, 7};
};

// The space and the folder keep the text, and a note has a limit.
TEST_F(AuditLimits, TheTextOfAVerdictHasOnlyTheFirstFindings) {
  for (std::int64_t i = 0; i < 20; ++i) {
    const PlannedTask task = TaskOf(i);
    audits_.OnPut(1, task);
    std::vector<SeenResult> results = ResultOf(task, "evil", 1);
    results.front().bytes = 1;
    audits_.OnResults(results);
  }
  const auto output = audits_.TakeOutput();
  ASSERT_TRUE(output.verdict);
  EXPECT_THAT(output.verdict->wrong, ElementsAre("evil"));
  const std::string& text = output.verdict->text;
  EXPECT_EQ(std::count(text.begin(), text.end(), ';'), 16) << text;
  EXPECT_THAT(text, EndsWith("; and 4 more"));
}

// A key's clients come one after the other, each for one task that nobody else can check.
TEST_F(AuditLimits, OneNameStandsForManyUnconfirmedClientsOfAKey) {
  constexpr std::int64_t kMany = 1001;
  for (std::int64_t i = 0; i < kMany; ++i) {
    const std::string id = "evil/" + std::to_string(i);
    std::map<std::string, Capacity> handlers;
    handlers[id].memory_bytes = kLarge;
    audits_.OnHandlers(handlers);
    Compute(TaskOf(i), id);
  }
  EXPECT_EQ(audits_.skipped(), std::uint64_t{kMany});
  EXPECT_THAT(audits_.unconfirmed(), ElementsAre("evil/", Contributors::AllClientsOf("evil/0")));
}

TEST_F(AuditLimits, CasesThatAreForgottenTakeNoRoom) {
  constexpr std::size_t kMost = Audits::kMaxVotes;
  std::map<std::string, Capacity> handlers;
  handlers["a"].memory_bytes = handlers["b"].memory_bytes = kLarge;
  audits_.OnHandlers(handlers);
  ComputeMany(0, kMost + 2, "a");
  EXPECT_EQ(audits_.TakeOutput().put.size(), kMost);
  audits_.Forget();
  EXPECT_EQ(audits_.OpenIn(1), 0u);
  EXPECT_FALSE(audits_.HasVotes());
  ComputeMany(10'000, kMost + 1, "a");
  EXPECT_EQ(audits_.TakeOutput().put.size(), kMost);
  handlers["c"].memory_bytes = kLarge;
  audits_.OnHandlers(handlers);  // looks at all cases
  EXPECT_EQ(audits_.OpenIn(1), kMost + 1);
}

// Each of two handlers that differ must not vote in place of the other one. The space refuses a
// task that names more handlers than its limit, so nobody is asked among so many.
TEST_F(AuditLimits, NoVoteNamesMoreHandlersThanTheSpaceAllows) {
  std::map<std::string, Capacity> handlers;
  handlers["a"].memory_bytes = handlers["b"].memory_bytes = kLarge;
  for (int i = 0; i < 70; ++i) handlers["small-" + std::to_string(i)].memory_bytes = kSmall;
  audits_.OnHandlers(handlers);
  const PlannedTask task = TaskOf(1);
  Compute(task, "a");
  Audits::Output output = audits_.TakeOutput();
  ASSERT_EQ(output.put.size(), 1u);
  audits_.OnVote(output.put[0].audit, ResultOf(output.put[0].task, "b", 13));
  output = audits_.TakeOutput();
  for (const AuditVote& vote : output.put) {
    EXPECT_LE(vote.task.not_by.size(), tuplespace::SpaceLimits().task_exclusions);
  }
  EXPECT_THAT(output.put, IsEmpty());
  ASSERT_TRUE(output.undecided);
  EXPECT_THAT(*output.undecided, HasSubstr("a and b differ and there is no other handler"));
}

}  // namespace
}  // namespace acan
