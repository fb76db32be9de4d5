#include "divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace acan {
namespace {

using ::testing::HasSubstr;

class DivergenceTest : public ::testing::Test {
 protected:
  static Job SmallJob() {
    Job job;
    job.model = Perceptron{{2, 2}};
    return job;
  }
  static NotFinite At(NotFinite::What what, std::int64_t step) { return {what, step, 0.1, {}}; }
  NotFiniteFound FirstLife(const NotFinite& found) const {
    try {
      Divergence(context_, std::nullopt).OnNotFinite(found, 100);
    } catch (const NotFiniteFound& thrown) {
      return thrown;
    }
    ADD_FAILURE() << "the first life goes on";
    return {};
  }

  Job job_ = SmallJob();
  Data data_;
  RunContext context_{RunSettings(),
                      {.endpoint = "ipc:///nobody-is-there", .name = "test", .id = {}},
                      job_,
                      BuildModel(job_),
                      data_};
};

TEST_F(DivergenceTest, TheSecondLifeKeepsTheLastGoodVersion) {
  const NotFinite loss = At(NotFinite::What::kLoss, 7);
  const NotFiniteFound found = FirstLife(loss);
  EXPECT_EQ(found.finite_through, 6);
  Divergence second(context_, found);
  EXPECT_TRUE(second.IsSought());
  EXPECT_EQ(second.kept_versions(), 2);
  EXPECT_EQ(second.OnNotFinite(loss, 100), 6);
}

TEST_F(DivergenceTest, ALossThatIsFiniteWhenItIsComputedAgainEndsTheSearch) {
  Divergence second(context_, FirstLife(At(NotFinite::What::kLoss, 7)));
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
  Divergence second(context_, FirstLife(At(NotFinite::What::kWeights, 7)));
  EXPECT_EQ(second.OnFinite(6), std::nullopt);
  EXPECT_THAT(second.OnFinite(7).value_or(""), HasSubstr("the weights of step 7 were not finite"));
  EXPECT_FALSE(second.IsSought());
}

TEST_F(DivergenceTest, TheFirstLifeDoesNotSearch) {
  Divergence first(context_, std::nullopt);
  EXPECT_EQ(first.OnFinite(0), std::nullopt);
}

}  // namespace
}  // namespace acan
