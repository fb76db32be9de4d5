#include "divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lone_run.h"

namespace acan {
namespace {

using ::testing::HasSubstr;

class DivergenceTest : public ::testing::Test {
 protected:
  static NotFinite At(NotFinite::What what, std::int64_t step) { return {what, step, 0.1, {}}; }
  NotFiniteFound FirstLife(const NotFinite& found) const {
    try {
      Divergence(run_.context, std::nullopt).OnNotFinite(found, 100);
    } catch (const NotFiniteFound& thrown) {
      return thrown;
    }
    ADD_FAILURE() << "the first life goes on";
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

TEST_F(DivergenceTest, TheFirstLifeDoesNotSearch) {
  Divergence first(run_.context, std::nullopt);
  EXPECT_EQ(first.OnFinite(0), std::nullopt);
}

}  // namespace
}  // namespace acan
