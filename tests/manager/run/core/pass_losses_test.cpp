#include "acan/manager/pass_losses.h"

#include "manager_shell.h"

namespace acan {
namespace {

// Above 2^24 a float rounds, so there could be more right answers than samples.
TEST(PassLossesTest, RightAnswersAreCountedExactly) {
  constexpr std::int64_t kRows = (std::int64_t{1} << 24) + 3;
  ManagerConfig config = SmallJob();
  config.model = BuildModel(Perceptron{{2, 2}});
  config.training.batch = config.train_samples = 1 << 16;
  Shell shell(config);
  shell.Send(Handlers({1 << 30}));
  ASSERT_TRUE(shell.core.plan());
  const PassTasks tasks(LowerModel(config.model), config.training, *shell.core.plan());
  Pass pass;
  pass.job = config.run;
  pass.rows = kRows;
  pass.train = false;
  LossSums sums;
  for (const LossCell& cell : tasks.Losses(pass)) {
    sums.push_back({0.5f, static_cast<float>(cell.rows)});
  }
  ASSERT_GT(sums.size(), 1u);
  const LossTotal total = SumLosses(tasks, {pass}, sums, shell.core.plan()->block);
  EXPECT_EQ(total.right, static_cast<double>(kRows));
  EXPECT_EQ(total.loss, 0.5f * static_cast<float>(sums.size()));
}

}  // namespace
}  // namespace acan
