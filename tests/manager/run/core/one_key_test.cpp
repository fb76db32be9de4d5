// Audits and quarantine where handlers share keys: one key is one voice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "acan/manager/excluded.h"
#include "audits_fixture.h"

namespace acan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OneKey : public AuditsFixture {};

// A key may have any number of clients, which together have one vote.
TEST_F(OneKey, ClientsOfOneKeyDoNotConfirmEachOther) {
  Present({"evil/0", "evil/1", "evil/2", "a/0", "b/0"});
  Put(TaskNumber(1));
  Compute(TaskNumber(1), "evil/0", 13);
  const PlannedTask vote = Vote();
  EXPECT_THAT(vote.not_by, ElementsAre("evil/"));
  Answer(vote, "a/0");
  const PlannedTask third = Vote();
  EXPECT_THAT(third.not_by, ElementsAre("a/", "evil/"));
  Present({"evil/0", "evil/1", "evil/2", "a/0"});
  auto output = audits_.TakeOutput();  // nobody new is present, so each may vote once more
  EXPECT_EQ(output.drop.size(), 1u);
  ASSERT_EQ(output.put.size(), 1u);
  EXPECT_THAT(output.put[0].task.not_by, ElementsAre("evil/"));
  audits_.OnVote(1, Results(output.put[0].task, "a/0"));
  const PlannedTask again = Vote();
  EXPECT_THAT(again.not_by, ElementsAre("a/", "evil/1", "evil/2"));
  audits_.OnVote(1, Results(again, "evil/0", 13));
  output = audits_.TakeOutput();
  EXPECT_FALSE(output.verdict);
  EXPECT_TRUE(output.undecided);
  Present({"evil/0", "evil/1", "evil/2", "a/0", "b/0"});
  Answer(Vote(), "b/0");
  output = audits_.TakeOutput();
  ASSERT_TRUE(output.verdict);
  EXPECT_THAT(output.verdict->wrong, ElementsAre("evil/0"));
}

TEST_F(OneKey, WhereAllHaveOneKeyItsClientsCheckEachOther) {
  Present({"lab/0", "lab/1", "lab/2"});
  Put(TaskNumber(1));
  Compute(TaskNumber(1), "lab/0", 13);
  const PlannedTask vote = Vote();
  EXPECT_THAT(vote.not_by, ElementsAre("lab/0"));
  Answer(vote, "lab/1");
  Answer(Vote(), "lab/2");
  const auto output = audits_.TakeOutput();
  ASSERT_TRUE(output.verdict);
  EXPECT_THAT(output.verdict->wrong, ElementsAre("lab/0"));
}

// It finds faulty devices, but the owner of the key may agree with itself.
TEST_F(OneKey, WhatClientsOfOneKeyAloneConfirmCountsAsSkipped) {
  Present({"evil/0", "evil/1"});
  std::vector<std::string> said;
  for (int i = 0; i < 2; ++i) {
    Put(TaskNumber(i));
    Compute(TaskNumber(i), "evil/0", 13);
    const PlannedTask vote = Vote();
    EXPECT_THAT(vote.not_by, ElementsAre("evil/0"));
    Answer(vote, "evil/1", 13);
    const auto output = audits_.TakeOutput();
    EXPECT_FALSE(output.verdict);
    said.insert(said.end(), output.say.begin(), output.say.end());
  }
  EXPECT_THAT(said, ElementsAre(HasSubstr("with another key checks the results of \"evil\"")));
  EXPECT_EQ(audits_.OpenIn(1), 0u);
  EXPECT_EQ(audits_.passed(), 0u);
  EXPECT_EQ(audits_.skipped(), 2u);
  EXPECT_THAT(audits_.unconfirmed(), ElementsAre("evil/"));
}

// A liar that claims much memory gets tasks that honest handlers cannot check.
TEST_F(OneKey, AHandlerThatIsTooSmallMakesNoTwoOfOneKey) {
  std::map<std::string, Capacity> handlers;
  handlers["evil/0"].memory_bytes = handlers["evil/1"].memory_bytes = 1 << 20;
  handlers["a/0"].memory_bytes = 16;  // too small for any task
  audits_.OnHandlers(handlers);
  Put(TaskNumber(1));
  Compute(TaskNumber(1), "evil/0", 13);
  Answer(Vote(), "evil/1", 13);
  EXPECT_EQ(audits_.passed(), 0u);
  EXPECT_EQ(audits_.skipped(), 1u);
  EXPECT_THAT(audits_.unconfirmed(), ElementsAre("evil/"));
}

TEST(ExcludedTest, AKeyIsInDoubtIfOthersCanComputeTheSame) {
  EXPECT_THAT(KeysInDoubt({"evil/0"}, {"evil/0"}, {"evil/1", "a/0"}), ElementsAre("evil/"));
  EXPECT_THAT(KeysInDoubt({"lab/0"}, {"lab/0"}, {"lab/1", "lab/2"}), IsEmpty())
      << "a cluster with one key and one faulty device";
  EXPECT_THAT(KeysInDoubt({"lab/0"}, {"lab/0", "evil/"}, {"lab/1", "evil/7"}), IsEmpty());
  EXPECT_THAT(KeysInDoubt({"a"}, {"a"}, {"b", "c"}), IsEmpty()) << "they have no keys";
}

// A task names a limited number of handlers. A key that is alone for some minutes must not end the
// run with ever new clients.
TEST(ExcludedTest, AKeyWithTooManyToNameIsOutEvenIfItIsAlone) {
  std::set<std::string> wrong = {"a", "b", "lab/0", "lab/1"};
  for (int i = 0; i < 60; ++i) wrong.insert("evil/" + std::to_string(i));
  EXPECT_THAT(KeysOverLimit(wrong, 64), IsEmpty());
  wrong.insert("evil/60");
  EXPECT_THAT(KeysToExclude(wrong, {"evil/61"}), IsEmpty());
  EXPECT_THAT(KeysOverLimit(wrong, 64), ElementsAre("evil/"));
  EXPECT_THAT(KeysOverLimit(wrong, 4), ElementsAre("evil/", "lab/"));
  EXPECT_THAT(KeysOverLimit(wrong, 2), ElementsAre("evil/", "lab/")) << "no key covers a and b";
  wrong.insert("evil/");
  EXPECT_THAT(KeysOverLimit(wrong, 64), IsEmpty()) << "it is out";
}

TEST(ExcludedTest, AKeyOfWhichManyWereWrongIsOutAsAWhole) {
  const std::set<std::string> three = {"evil/0", "evil/1", "evil/2", "x"};
  const std::set<std::string> present = {"evil/9", "a/0"};
  EXPECT_THAT(KeysToExclude(three, present), IsEmpty());
  std::set<std::string> four = three;
  four.insert("evil/3");
  EXPECT_THAT(KeysToExclude(four, present), ElementsAre("evil/"));
  EXPECT_THAT(KeysToExclude(four, {"evil/9"}), IsEmpty()) << "nobody else is there";
  four.insert("evil/");
  EXPECT_THAT(KeysToExclude(four, present), IsEmpty()) << "it is out";
  EXPECT_TRUE(HasClient(four, "evil/77"));
  EXPECT_FALSE(HasClient(four, "evil2/77"));
  EXPECT_FALSE(HasClient(three, "evil/77"));
  EXPECT_THAT(WithoutCovered(four), ElementsAre("evil/", "x"));
}

}  // namespace
}  // namespace acan
