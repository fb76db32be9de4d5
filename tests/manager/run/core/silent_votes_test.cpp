// Audits whose votes nobody takes, and what becomes of disputes that are not decided.
#include "audits_fixture.h"

namespace acan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tuplespace::Key;

class SilentVotes : public AuditsFixture {};

// Otherwise one client with a key of its own could stop a run whose handlers share a key.
TEST_F(SilentVotes, AKeyThatNeverVotesDoesNotKeepOthersFromVoting) {
  Present({"k/a", "k/b", "evil/x"});
  Put(TaskNumber(1));
  Compute(TaskNumber(1), "k/a");
  const PlannedTask left_alone = Vote();
  EXPECT_THAT(left_alone.not_by, ElementsAre("k/"));
  audits_.LeaveOutSilent(false);
  Audits::Output output = audits_.TakeOutput();
  ASSERT_EQ(output.drop.size(), 1u);
  EXPECT_EQ(output.drop[0].second, left_alone.key);
  EXPECT_THAT(output.say, ElementsAre(HasSubstr("evil/ could and is not asked again")));
  ASSERT_EQ(output.put.size(), 1u);
  EXPECT_THAT(output.put[0].task.not_by, ElementsAre("k/a", "evil/"));
  audits_.OnVote(1, Results(output.put[0].task, "k/b"));
  EXPECT_EQ(audits_.OpenIn(1), 0u);
  EXPECT_EQ(audits_.skipped(), 1u) << "one key is one voice";
  // A new id has no advantage.
  Present({"k/a", "k/b", "evil/x", "evil/y"});
  Put(TaskNumber(2));
  Compute(TaskNumber(2), "k/a");
  EXPECT_THAT(Vote().not_by, ElementsAre("k/a", "evil/"));
}

TEST_F(SilentVotes, ASilentKeyIsAskedAgainAfterMoreAndMoreResults) {
  Present({"k/a", "k/b", "evil/x"});
  std::int64_t number = 0;
  for (const int owed : {1, 4, 16}) {
    Put(TaskNumber(++number));
    Compute(TaskNumber(number), "k/a");
    EXPECT_THAT(Vote().not_by, ElementsAre("k/"));
    audits_.LeaveOutSilent(true);
    Answer(Vote(), "k/b");
    for (int i = 0; i < owed; ++i) {
      Put(TaskNumber(++number));
      Compute(TaskNumber(number), "k/b");
      Answer(Vote(), "k/a");
      audits_.OnResults({{Key{"run", 5, "act", -1}, "evil/x", std::nullopt, 4}});
    }
  }
}

TEST_F(SilentVotes, AKeyThatHasWorkedIsWaitedForLonger) {
  Present({"k/a", "k/b", "evil/x"});
  audits_.OnResults({{Key{"run", 5, "act", -1}, "evil/x", std::nullopt, 4}});
  Put(TaskNumber(1));
  Compute(TaskNumber(1), "k/a");
  Vote();
  audits_.LeaveOutSilent(false);
  EXPECT_THAT(audits_.TakeOutput().drop, IsEmpty());
  audits_.LeaveOutSilent(true);
  EXPECT_EQ(audits_.TakeOutput().drop.size(), 1u);
}

TEST_F(SilentVotes, WhereEverybodyElseIsSilentTheAuditIsSkipped) {
  Present({"k/a", "evil/x"});
  Put(TaskNumber(1));
  Compute(TaskNumber(1), "k/a");
  Vote();
  audits_.LeaveOutSilent(true);
  EXPECT_EQ(audits_.skipped(), 1u);
  EXPECT_THAT(audits_.unconfirmed(), ElementsAre("k/", "k/a"));
}

// Who disagrees and then says nothing more is not believed, but neither is the other one.
TEST_F(SilentVotes, WhoDoesNotRepeatItselfIsNotWaitedFor) {
  Present({"k/a", "k/b", "evil/x"});
  Put(TaskNumber(1));
  Compute(TaskNumber(1), "k/a");
  Answer(Vote(), "evil/x", 13);
  EXPECT_THAT(Vote().not_by, ElementsAre("k/")) << "evil/x is to say it once more";
  audits_.LeaveOutSilent(true);
  Audits::Output output = audits_.TakeOutput();
  ASSERT_EQ(output.put.size(), 1u);
  EXPECT_THAT(output.put[0].task.not_by, ElementsAre("evil/", "k/b"));
  audits_.OnVote(1, Results(output.put[0].task, "k/a"));
  output = audits_.TakeOutput();
  EXPECT_FALSE(output.verdict);
  ASSERT_TRUE(output.undecided);
  EXPECT_THAT(*output.undecided, HasSubstr("there is no handler with another key to decide"));
  Present({"k/a", "k/b", "evil/x", "other/z"});
  Answer(Vote(), "other/z");
  EXPECT_THAT(audits_.TakeOutput().verdict->wrong, ElementsAre("evil/x"));
}

TEST_F(SilentVotes, ADisputeThatIsForgottenIsAConflict) {
  Present({"a", "b", "c"});
  for (int i = 1; i <= 3; ++i) Put(TaskNumber(i, 2));
  Compute(TaskNumber(1, 2), "a");
  Answer(Vote(), "b", 13);
  Vote();
  Compute(TaskNumber(2, 2), "a");
  Vote();
  audits_.Forget();
  const Audits::Output output = audits_.TakeOutput();
  ASSERT_EQ(output.conflicts.size(), 1u) << "only the first has two results";
  EXPECT_EQ(output.conflicts[0].result, TaskNumber(1, 2).task.outputs[0].key);
  EXPECT_THAT(output.conflicts[0].text, HasSubstr("by a differs from what b computed"));
  EXPECT_FALSE(output.verdict);
}

}  // namespace
}  // namespace acan
