#include "divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lone_run.h"
#include "test_files.h"

namespace acan {
namespace {

using ::testing::HasSubstr;

class DivergenceTest : public ::testing::Test {
 protected:
  static NotFinite At(NotFinite::What what, std::int64_t step) { return {what, step, 0.1, {}}; }
  NotFiniteFound FirstLife(const NotFinite& found) const {
    return LifeThatBeginsAnother(std::nullopt, found);
  }
  // What the next one looks for.
  NotFiniteFound LifeThatBeginsAnother(std::optional<NotFiniteFound> sought,
                                       const NotFinite& found) const {
    try {
      Divergence(run_.context, sought).OnNotFinite(found, 100);
    } catch (const NotFiniteFound& thrown) {
      return thrown;
    }
    ADD_FAILURE() << "the run ends";
    return {};
  }

  LoneRun run_;
};

TEST_F(DivergenceTest, TheSecondLifeKeepsTheLastGoodVersion) {
  const NotFinite loss = At(NotFinite::What::kLoss, 7);
  const NotFiniteFound found = FirstLife(loss);
  EXPECT_EQ(found.finite_through, 6);
  Divergence second(run_.context, found);
  EXPECT_TRUE(second.IsSought());
  EXPECT_EQ(second.kept_versions(), 2);
  EXPECT_EQ(second.OnNotFinite(loss, 100), 6);
}

TEST_F(DivergenceTest, ALossThatIsFiniteWhenItIsComputedAgainEndsTheSearch) {
  Divergence second(run_.context, FirstLife(At(NotFinite::What::kLoss, 7)));
  EXPECT_EQ(second.OnFinite(5), std::nullopt);
  EXPECT_EQ(second.OnFinite(6), std::nullopt) << "the next step has the loss in question";
  EXPECT_TRUE(second.IsSought());
  EXPECT_THAT(second.OnFinite(7).value_or(""), HasSubstr("the loss of step 7 was not finite"));
  EXPECT_FALSE(second.IsSought());
  EXPECT_EQ(second.kept_versions(), 0);
  EXPECT_EQ(second.found(), std::nullopt);
  EXPECT_EQ(second.OnFinite(8), std::nullopt);
}

TEST_F(DivergenceTest, SoDoWeights) {
  Divergence second(run_.context, FirstLife(At(NotFinite::What::kWeights, 7)));
  EXPECT_EQ(second.OnFinite(6), std::nullopt);
  EXPECT_THAT(second.OnFinite(7).value_or(""), HasSubstr("the weights of step 7 were not finite"));
  EXPECT_FALSE(second.IsSought());
}

// The first life had an earlier loss that was finite, so one of the lives is wrong.
TEST_F(DivergenceTest, AnEarlierLossIsAConflictAndDoesNotEndTheRun) {
  const NotFiniteFound sought = FirstLife(At(NotFinite::What::kLoss, 72));
  EXPECT_FALSE(sought.disputed);
  const NotFinite earlier = At(NotFinite::What::kLoss, 63);
  EXPECT_THAT(Divergence(run_.context, sought).Contradiction(earlier).value_or(""),
              HasSubstr("the loss of step 63 was finite, and is not finite when"));
  const NotFiniteFound next = LifeThatBeginsAnother(sought, earlier);
  EXPECT_TRUE(next.disputed);
  EXPECT_EQ(next.step, 63);
  EXPECT_EQ(next.finite_through, 62);
  Divergence third(run_.context, next);
  EXPECT_EQ(third.Contradiction(earlier), std::nullopt);
  EXPECT_EQ(third.OnNotFinite(earlier, 100), 62) << "two lives agree";
}

TEST_F(DivergenceTest, ALossThatIsFiniteWhileItsStepMakesBadWeightsIsAConflict) {
  const NotFiniteFound sought = FirstLife(At(NotFinite::What::kLoss, 7));
  const NotFinite weights = At(NotFinite::What::kWeights, 7);
  EXPECT_THAT(Divergence(run_.context, sought).Contradiction(weights).value_or(""),
              HasSubstr("the loss of step 7 was not finite, and is finite"));
  EXPECT_TRUE(LifeThatBeginsAnother(sought, weights).disputed);
}

TEST_F(DivergenceTest, TheWeightsBeforeABadLossAgreeWithIt) {
  Divergence second(run_.context, FirstLife(At(NotFinite::What::kLoss, 7)));
  const NotFinite weights = At(NotFinite::What::kWeights, 6);
  EXPECT_EQ(second.Contradiction(weights), std::nullopt);
  EXPECT_EQ(second.OnNotFinite(weights, 100), 6);
}

// They may hide from the losses of the first life, or a handler may have made them in the second
// one.
TEST_F(DivergenceTest, EarlierWeightsEndTheRunOnlyIfTwoLivesFindThem) {
  for (const NotFinite::What first : {NotFinite::What::kLoss, NotFinite::What::kWeights}) {
    const NotFinite weights = At(NotFinite::What::kWeights, 285);
    const NotFiniteFound sought = FirstLife(At(first, 306));
    EXPECT_EQ(Divergence(run_.context, sought).Contradiction(weights), std::nullopt);
    const NotFiniteFound next = LifeThatBeginsAnother(sought, weights);
    EXPECT_TRUE(next.disputed);
    EXPECT_EQ(Divergence(run_.context, next).OnNotFinite(weights, 1000), 285);
    EXPECT_THAT(Divergence(run_.context, next).OnFinite(285).value_or(""),
                HasSubstr("the weights of step 285 were not finite, and are finite"));
    // The first life had this loss, too.
    const NotFinite loss = At(NotFinite::What::kLoss, 285);
    EXPECT_THAT(Divergence(run_.context, next).Contradiction(loss).value_or(""),
                HasSubstr("the loss of step 285 was finite"));
  }
}

// A run that continued after a loss that was not finite may be resumed as one that does not.
TEST_F(DivergenceTest, ALossThatWasNotFiniteInAnEarlierLifeIsNoConflict) {
  Divergence resumed(run_.context, std::nullopt);
  StepMetrics metrics;
  metrics.step = 10;
  resumed.OnEarlier(metrics);
  const NotFiniteFound sought = resumed.ToSeek(NotFinite::What::kLoss, 20, 19);
  const NotFinite loss = At(NotFinite::What::kLoss, 15);
  EXPECT_EQ(Divergence(run_.context, sought).Contradiction(loss), std::nullopt);
  EXPECT_EQ(Divergence(run_.context, sought).OnNotFinite(loss, 100), 14);
}

// Devices that round differently may diverge at different steps.
TEST_F(DivergenceTest, InFastPrecisionAnEarlierStepEndsTheRun) {
  run_.job.training.precision = Precision::kFast;
  const NotFiniteFound sought = FirstLife(At(NotFinite::What::kLoss, 72));
  for (const NotFinite::What what : {NotFinite::What::kLoss, NotFinite::What::kWeights}) {
    Divergence second(run_.context, sought);
    EXPECT_EQ(second.Contradiction(At(what, 63)), std::nullopt);
    EXPECT_TRUE(second.OnNotFinite(At(what, 63), 100));
  }
}

TEST(DisagreementsTest, TheRunEndsAfterManyWithoutANewStep) {
  const std::vector<ResultConflict> conflicts = {{"step 63", "the loss of step 63 was finite"}};
  Disagreements lives;
  lives.On(70, conflicts);
  for (int life = 1; life < LivesInVain::kMost; ++life) lives.On(60 + life, conflicts);
  ExpectError([&] { lives.On(70, conflicts); },
              {conflicts[0].text, "1 conflict", "a handler computes wrong results", "--resume"},
              Error::Kind::kFailure);
}

TEST_F(DivergenceTest, TheFirstLifeDoesNotSearch) {
  Divergence first(run_.context, std::nullopt);
  EXPECT_EQ(first.OnFinite(0), std::nullopt);
}

}  // namespace
}  // namespace acan
