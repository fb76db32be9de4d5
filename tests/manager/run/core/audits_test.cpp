// Audits alone; the test provides handlers, results and votes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "audits_fixture.h"

namespace acan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tuplespace::Key;

class AuditsTest : public AuditsFixture {};

TEST_F(AuditsTest, AnotherHandlerConfirms) {
  Present({"a", "b", "c"});
  const PlannedTask task = TaskNumber(1, 2);
  Put(task);
  EXPECT_EQ(audits_.OpenIn(1), 1u);
  Compute(task, "a");
  const PlannedTask vote = Vote();
  EXPECT_THAT(vote.not_by, ElementsAre("a"));
  Answer(vote, "b");
  EXPECT_EQ(audits_.OpenIn(1), 0u);
  EXPECT_EQ(audits_.passed(), 1u);
  EXPECT_THAT(audits_.unconfirmed(), IsEmpty());
  EXPECT_FALSE(audits_.TakeOutput().verdict);
}

TEST_F(AuditsTest, AVoteShowsNothingOfWhatItChecks) {
  Present({"a", "b"});
  const PlannedTask task = TaskNumber(1);
  Put(task);
  Compute(task, "a");
  const PlannedTask vote = Vote();
  EXPECT_NE(vote.key, task.key);
  EXPECT_NE(vote.task.outputs[0].key, task.task.outputs[0].key);
  EXPECT_FALSE(vote.task.outputs[0].keep);
  EXPECT_EQ(vote.affinity, -1);
  EXPECT_EQ(vote.inputs, task.inputs);
}

// A task that fails on all handlers may have an input of a wrong size.
TEST_F(AuditsTest, InputsAreDecidedWhenTheAuditsOfTheirTasksAre) {
  Present({"a", "b", "c"});
  const PlannedTask first = TaskNumber(1, 2);
  PlannedTask second = TaskNumber(2);
  second.inputs = {Key{"run", 5, "tile"}, first.task.outputs[1].key};
  Put(first);
  Put(second);
  EXPECT_TRUE(audits_.InputsAreDecided(first.key));
  EXPECT_FALSE(audits_.InputsAreDecided(second.key)) << "nobody has reported the first";
  Compute(first, "a");
  const PlannedTask vote = Vote();
  EXPECT_FALSE(audits_.InputsAreDecided(second.key));
  EXPECT_TRUE(audits_.InputsAreDecided(vote.key));
  EXPECT_TRUE(audits_.InputsAreDecided(TaskNumber(9).key)) << "it is not audited";
  Answer(vote, "b");
  EXPECT_TRUE(audits_.InputsAreDecided(second.key));
}

TEST_F(AuditsTest, AThirdSaysWhoIsWrong) {
  for (const bool first_lies : {true, false}) {
    Present({"a", "b", "c"});
    const PlannedTask task = TaskNumber(first_lies);
    Put(task);
    Compute(task, "a", first_lies ? 13 : kRightResult);
    Answer(Vote(), "b", first_lies ? kRightResult : 13);
    const PlannedTask third = Vote();
    EXPECT_THAT(third.not_by, ElementsAre("a", "b"));
    EXPECT_EQ(audits_.OpenIn(1), 1u);  // so the step waits
    Answer(third, "c");
    const auto output = audits_.TakeOutput();
    ASSERT_TRUE(output.verdict);
    EXPECT_THAT(output.verdict->wrong, ElementsAre(first_lies ? "a" : "b"));
    EXPECT_THAT(output.verdict->text, HasSubstr("\"forward\""));
  }
}

// Two clients of a liar completed a task and its audit with results without a hash, such as empty
// and resident ones. These must not count as equal. (Seed 12348 of the simulation found this.)
TEST_F(AuditsTest, ResultsWithoutAHashConfirmNothing) {
  Present({"a", "b", "c", "d"});
  const PlannedTask task = TaskNumber(1);
  const auto without_hash = [](const PlannedTask& of, const char* by) {
    const acan::Output& output = of.task.outputs[0];
    return std::vector<SeenResult>{{output.key, by, std::nullopt, output.view.bytes()}};
  };
  Put(task);
  audits_.OnResults(without_hash(task, "a"));
  audits_.OnVote(1, without_hash(Vote(), "b"));
  EXPECT_EQ(audits_.passed(), 0u);
  Answer(Vote(), "c");
  Answer(Vote(), "d");
  const auto output = audits_.TakeOutput();
  ASSERT_TRUE(output.verdict);
  EXPECT_THAT(output.verdict->wrong, ElementsAre("a", "b"));
}

TEST_F(AuditsTest, OfTwoTheOneThatContradictsItselfIsWrong) {
  Present({"a", "b"});
  const PlannedTask task = TaskNumber(1);
  Put(task);
  Compute(task, "a", 13);
  Answer(Vote(), "b");
  const PlannedTask again = Vote();
  EXPECT_THAT(again.not_by, ElementsAre("b"));
  Answer(again, "a");  // this time correctly
  const auto output = audits_.TakeOutput();
  ASSERT_TRUE(output.verdict);
  EXPECT_THAT(output.verdict->wrong, ElementsAre("a"));
}

// Its results differ each time, and so never confirm the other handler's.
TEST_F(AuditsTest, WhoNeverRepeatsItselfIsWrong) {
  for (const bool both : {false, true}) {
    Present({"a", "b"});
    const PlannedTask task = TaskNumber(both);
    Put(task);
    Compute(task, "a", 13);
    Answer(Vote(), "b");
    Answer(Vote(), "a", 14);
    Answer(Vote(), "b", both ? 15 : kRightResult);
    const auto output = audits_.TakeOutput();
    EXPECT_FALSE(output.undecided);
    ASSERT_TRUE(output.verdict);
    if (both) {
      EXPECT_THAT(output.verdict->wrong, ElementsAre("a", "b"));
    } else {
      EXPECT_THAT(output.verdict->wrong, ElementsAre("a"));
      EXPECT_THAT(output.verdict->text, HasSubstr("that a computed twice are not the same"));
    }
    EXPECT_EQ(audits_.OpenIn(1), 0u);
  }
}

TEST_F(AuditsTest, WhoLeftBeforeItWasAskedAgainDoesNotRepeatItself) {
  Present({"a", "b"});
  const PlannedTask task = TaskNumber(1);
  Put(task);
  Compute(task, "a", 13);
  Answer(Vote(), "b");
  const PlannedTask again = Vote();
  Present({"a"});
  Answer(again, "a", 13);
  const auto output = audits_.TakeOutput();
  EXPECT_FALSE(output.verdict);
  ASSERT_TRUE(output.undecided);
  EXPECT_THAT(*output.undecided, HasSubstr("a and b differ and there is no other handler"));
}

TEST_F(AuditsTest, SomebodyNewIsAskedInPlaceOfWhoShouldRepeatItself) {
  std::map<std::string, Capacity> handlers;
  handlers["a/1"].memory_bytes = handlers["b/1"].memory_bytes = 1 << 20;
  handlers["c/1"].memory_bytes = 1;  // too small for any task
  audits_.OnHandlers(handlers);
  const PlannedTask task = TaskNumber(1);
  Put(task);
  Compute(task, "a/1");
  Answer(Vote(), "b/1", 13);
  EXPECT_THAT(Vote().not_by, ::testing::Contains("c/"))
      << "a/1 or b/1 is to say it once more, and is silent";
  handlers["c/2"].memory_bytes = 1 << 20;
  audits_.OnHandlers(handlers);
  const auto output = audits_.TakeOutput();
  EXPECT_EQ(output.drop.size(), 1u);
  ASSERT_EQ(output.put.size(), 1u);
  Answer(output.put[0].task, "c/2");
  EXPECT_THAT(audits_.TakeOutput().verdict->wrong, ElementsAre("b/1"));
}

TEST_F(AuditsTest, AFarSlowerHandlerVotesOnlyIfNobodyElseCan) {
  Present({"a", "b", "slow"});
  audits_.SetSpares({"slow"});
  const PlannedTask first = TaskNumber(1), second = TaskNumber(2);
  Put(first);
  Compute(first, "a");
  const PlannedTask vote = Vote();
  EXPECT_THAT(vote.not_by, ElementsAre("a", "slow"));
  Answer(vote, "b");
  Put(second);
  Compute(second, "a");
  EXPECT_THAT(Vote().not_by, ElementsAre("a", "slow"));
  Present({"a", "slow"});  // the vote is asked of another one
  EXPECT_THAT(Vote().not_by, ElementsAre("a"));
}

TEST_F(AuditsTest, OfTwoThatRepeatThemselvesNobodyIsBelieved) {
  Present({"a", "b"});
  const PlannedTask task = TaskNumber(1);
  Put(task);
  Compute(task, "a", 13);
  Answer(Vote(), "b");
  Answer(Vote(), "a", 13);
  Answer(Vote(), "b");
  auto output = audits_.TakeOutput();
  EXPECT_FALSE(output.verdict);
  ASSERT_TRUE(output.undecided);
  EXPECT_THAT(*output.undecided, HasSubstr("a and b"));
  EXPECT_EQ(audits_.OpenIn(1), 1u);
  ASSERT_NE(audits_.Undecided(), nullptr);
  EXPECT_EQ(*audits_.Undecided(), *output.undecided);
  Present({"a", "b", "c"});
  EXPECT_EQ(audits_.Undecided(), nullptr);
  Answer(Vote(), "c");
  output = audits_.TakeOutput();
  ASSERT_TRUE(output.verdict);
  EXPECT_THAT(output.verdict->wrong, ElementsAre("a"));
}

TEST_F(AuditsTest, WhoIsTooSmallToDecideIsKnown) {
  std::map<std::string, Capacity> handlers;
  handlers["a"].memory_bytes = handlers["b"].memory_bytes = 1 << 20;
  handlers["c"].memory_bytes = 16;  // too small for any task
  audits_.OnHandlers(handlers);
  const PlannedTask task = TaskNumber(1);
  Put(task);
  Compute(task, "a", 13);
  Answer(Vote(), "b");
  EXPECT_EQ(audits_.MemoryOfNewVoters(), 0u) << "it may still be decided";
  Answer(Vote(), "a", 13);
  Answer(Vote(), "b");
  ASSERT_NE(audits_.Undecided(), nullptr);
  EXPECT_EQ(audits_.MemoryOfNewVoters(), 16u);
  Present({"a", "b"});
  EXPECT_EQ(audits_.MemoryOfNewVoters(), 0u);
}

TEST_F(AuditsTest, WithoutASecondHandlerItIsSaidAndSkipped) {
  Present({"a"});
  for (int i = 0; i < 2; ++i) {
    Put(TaskNumber(i));
    Compute(TaskNumber(i), "a");
  }
  const auto output = audits_.TakeOutput();
  EXPECT_THAT(output.put, IsEmpty());
  EXPECT_EQ(output.say.size(), 1u);
  EXPECT_EQ(audits_.skipped(), 2u);
  EXPECT_THAT(audits_.unconfirmed(), ElementsAre("a"));
  EXPECT_EQ(audits_.OpenIn(1), 0u);
}

// All honest handlers had just lost their devices when a lie arrived. It must not be believed,
// since they may be back before anybody reads it. (Seed 40041571 of the simulation found this.)
TEST_F(AuditsTest, WhileNobodyIsThereNothingIsSkipped) {
  Present({});
  Put(TaskNumber(1));
  Compute(TaskNumber(1), "liar", 13);
  EXPECT_THAT(audits_.TakeOutput().put, IsEmpty());
  EXPECT_EQ(audits_.skipped(), 0u);
  EXPECT_EQ(audits_.OpenIn(1), 1u);
  Present({"a", "b"});
  Answer(Vote(), "a");
  Answer(Vote(), "b");
  const auto output = audits_.TakeOutput();
  ASSERT_TRUE(output.verdict);
  EXPECT_THAT(output.verdict->wrong, ElementsAre("liar"));
}

TEST_F(AuditsTest, AVoteThatEverybodyLeftWaitsForTheNext) {
  Present({"a", "b"});
  Put(TaskNumber(1));
  Compute(TaskNumber(1), "a");
  Vote();
  Present({});
  EXPECT_EQ(audits_.TakeOutput().drop.size(), 1u);
  EXPECT_EQ(audits_.OpenIn(1), 1u);
  Present({"c"});
  Answer(Vote(), "c");
  EXPECT_EQ(audits_.passed(), 1u);
}

// In the same seed, every task that read the result failed, and that ended the run. No honest
// handler makes a result of a wrong size, so no vote is needed.
TEST_F(AuditsTest, AResultOfAWrongSizeIsWrongWithoutAVote) {
  Present({"liar"});
  const PlannedTask task = TaskNumber(1, 2);
  Put(task);
  std::vector<SeenResult> results = Results(task, "liar");
  results[1].bytes = 53;
  audits_.OnResults(results);
  auto output = audits_.TakeOutput();
  ASSERT_TRUE(output.verdict);
  EXPECT_THAT(output.verdict->wrong, ElementsAre("liar"));
  EXPECT_THAT(output.verdict->text, HasSubstr("53 bytes, it must have 64"));

  Present({"a", "liar"});
  Put(TaskNumber(2));
  Compute(TaskNumber(2), "a");
  const PlannedTask vote = Vote();
  results = Results(vote, "liar");
  results[0].bytes = 65;
  audits_.OnVote(id_, results);
  output = audits_.TakeOutput();
  ASSERT_TRUE(output.verdict);
  EXPECT_THAT(output.verdict->wrong, ElementsAre("liar"));
}

TEST_F(AuditsTest, AVoteThatNobodyIsLeftForIsDropped) {
  Present({"a", "b"});
  Put(TaskNumber(1));
  Compute(TaskNumber(1), "a");
  const PlannedTask vote = Vote();
  Present({"a"});
  const auto output = audits_.TakeOutput();
  ASSERT_EQ(output.drop.size(), 1u);
  EXPECT_EQ(output.drop[0].second, vote.key);
  EXPECT_EQ(audits_.skipped(), 1u);
  audits_.OnVote(id_, Results(vote, "b", 13));  // too late
  EXPECT_FALSE(audits_.TakeOutput().verdict);
}

TEST_F(AuditsTest, WhoIsTooSmallDoesNotVote) {
  Present({"a", "b"}, 16);
  Put(TaskNumber(1));
  Compute(TaskNumber(1), "a");
  EXPECT_EQ(audits_.skipped(), 1u);
}

TEST_F(AuditsTest, AResultThatSomebodyElsePutIsHis) {
  Present({"a", "b", "c", "d"});
  const PlannedTask task = TaskNumber(1, 2);
  Put(task);
  audits_.OnResults(
      {{task.task.outputs[0].key, "a", tuplespace::PayloadHash{kRightResult, 0}, 64}});
  audits_.OnResults({{task.task.outputs[1].key, "b", tuplespace::PayloadHash{13, 0}, 64}});
  const PlannedTask vote = Vote();
  EXPECT_THAT(vote.not_by, ElementsAre("a", "b"));
  Answer(vote, "c");
  Answer(Vote(), "d");
  const auto output = audits_.TakeOutput();
  ASSERT_TRUE(output.verdict);
  EXPECT_THAT(output.verdict->wrong, ElementsAre("b"));
}

TEST_F(AuditsTest, TheShareIsDrawnAndOnlyTheSecretSaysWhich) {
  const auto drawn = [](double share, std::uint64_t secret) {
    Audits audits(share, secret);
    std::vector<bool> all;
    for (int i = 0; i < 20'000; ++i) {
      audits.OnPut(i, TaskNumber(i));
      all.push_back(audits.OpenIn(i) == 1);
    }
    return all;
  };
  const auto first = drawn(0.05, 1);
  const auto count = std::count(first.begin(), first.end(), true);
  EXPECT_NEAR(static_cast<double>(count), 1000, 150);  // five standard deviations
  EXPECT_EQ(first, drawn(0.05, 1));
  EXPECT_NE(first, drawn(0.05, 2));
  const auto none = drawn(0, 1);
  EXPECT_EQ(std::count(none.begin(), none.end(), true), 0);
}

// The tasks of a step that is computed again have the same keys. Which of them were drawn at first
// is known by then: votes were under way for them.
TEST_F(AuditsTest, AfterGoingBackOtherTasksAreDrawn) {
  constexpr int kTasks = 20'000;
  Audits audits(0.5, 1);
  std::vector<bool> first, again;
  for (int i = 0; i < kTasks; ++i) first.push_back(audits.OnPut(i, TaskNumber(i)));
  audits.Forget();
  for (int i = 0; i < kTasks; ++i) again.push_back(audits.OnPut(i, TaskNumber(i)));
  int differ = 0;
  for (std::size_t i = 0; i < first.size(); ++i) differ += first[i] != again[i] ? 1 : 0;
  EXPECT_NEAR(differ, kTasks / 2, 350);  // five standard deviations
}

// The manager reads the results of each vote, and the broker limits its open Reads.
TEST_F(AuditsTest, OnlySoManyVotesAreUnderWay) {
  constexpr std::size_t kMost = Audits::kMaxVotes;
  Present({"a", "b", "c"});
  std::vector<PlannedTask> tasks;
  for (std::size_t i = 0; i < kMost + 3; ++i) tasks.push_back(TaskNumber(std::int64_t(i)));
  for (const PlannedTask& task : tasks) Put(task);
  for (const PlannedTask& task : tasks) Compute(task, "a");
  const std::vector<AuditVote> votes = audits_.TakeOutput().put;
  ASSERT_EQ(votes.size(), kMost);
  EXPECT_EQ(votes.front().audit, 1u);
  EXPECT_EQ(votes.back().audit, kMost);
  EXPECT_EQ(audits_.OpenIn(1), kMost + 3);

  audits_.OnVote(votes[9].audit, Results(votes[9].task, "b"));
  const PlannedTask next = Vote();
  EXPECT_EQ(id_, kMost + 1) << "the earliest that waits";
  Answer(next, "b", 13);
  EXPECT_THAT(Vote().not_by, ElementsAre("a", "b")) << "a third's vote waits for no other";

  Present({"a"});
  EXPECT_EQ(audits_.OpenIn(1), 1u) << "all are skipped but the one whose results differ";
  Present({"a", "b", "c"});
  audits_.TakeOutput();
  for (std::int64_t i = 1000; i < 1000 + std::int64_t(kMost); ++i) {
    Put(TaskNumber(i));
    Compute(TaskNumber(i), "a");
  }
  EXPECT_EQ(audits_.TakeOutput().put.size(), kMost - 1) << "votes that were dropped take no room";
}

// It gets the place of a dropped vote, which nobody is left to take, in the same event.
TEST_F(AuditsTest, ACaseThatWaitedIsVotedOnOnce) {
  constexpr std::size_t kMost = Audits::kMaxVotes;
  Present({"a", "b"});
  for (std::size_t i = 0; i < kMost + 2; ++i) {
    const PlannedTask task = TaskNumber(std::int64_t(i));
    Put(task);
    Compute(task, i < kMost ? "a" : "b");
  }
  EXPECT_EQ(audits_.TakeOutput().put.size(), kMost);
  Present({"a"});
  const Audits::Output output = audits_.TakeOutput();
  EXPECT_EQ(output.drop.size(), kMost);
  ASSERT_EQ(output.put.size(), 2u);
  EXPECT_NE(output.put[0].audit, output.put[1].audit);
}

// Random votes of honest handlers and liars that come and go. No honest handler may ever be named,
// and a case that ends with a liar's result against two honest ones must name the liar.
TEST_F(AuditsTest, NoHonestHandlerIsEverNamed) {
  int verdicts = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937_64 random(seed);
    Audits audits(1.0, seed);
    const std::vector<std::string> all = {"a", "b", "c", "d", "liar"};
    std::map<std::string, Capacity> present;
    std::vector<AuditVote> open;
    std::uint64_t lies = 100;
    const auto value = [&](const std::string& who) {
      return who == "liar" && random() % 2 == 0 ? ++lies : kRightResult;
    };
    for (int step = 0; step < 60; ++step) {
      for (const std::string& name : all) {
        if (random() % 20 != 0)
          present[name].memory_bytes = 1 << 20;
        else
          present.erase(name);
      }
      audits.OnHandlers(present);
      const std::string who = all[random() % all.size()];
      const PlannedTask task = TaskNumber(step);
      audits.OnPut(1, task);
      audits.OnResults(Results(task, who.c_str(), value(who)));
      for (AuditVote& vote : audits.TakeOutput().put) open.push_back(std::move(vote));
      while (!open.empty()) {
        const AuditVote vote = open.back();
        open.pop_back();
        const std::string voter = all[random() % all.size()];
        const auto& not_by = vote.task.not_by;
        if (std::find(not_by.begin(), not_by.end(), voter) != not_by.end()) {
          open.push_back(vote);
          continue;
        }
        audits.OnVote(vote.audit, Results(vote.task, voter.c_str(), value(voter)));
        auto output = audits.TakeOutput();
        for (AuditVote& more : output.put) open.push_back(std::move(more));
        if (!output.verdict) continue;
        ++verdicts;
        ASSERT_THAT(output.verdict->wrong, ElementsAre("liar")) << "seed " << seed;
      }
    }
  }
  EXPECT_GT(verdicts, 1000);
}

}  // namespace
}  // namespace acan
