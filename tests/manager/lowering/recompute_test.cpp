// Activations that the backward pass recomputes: they have the same bits, and are recomputed only
// where the estimate says that it pays off.
#include "lowering_fixture.h"

namespace acan {
namespace {

class RecomputeTest : public LoweringTest {};

// Bytes of activations in the space between the tasks of a step, without weights and gradients.
std::uint64_t ActivationBytes(const std::vector<PlannedTask>& tasks) {
  std::uint64_t bytes = 0;
  for (const PlannedTask& task : tasks) {
    if (task.task.kind == TaskKind::kUpdate) continue;
    for (const Output& output : task.task.outputs) {
      if (output.key.ToString().find("act") != std::string::npos) bytes += output.view.bytes();
    }
  }
  return bytes;
}

// Recomputed activations are not kept, and have the same bits as if they were.
TEST_P(RecomputeTest, ActivationsAreComputedAgainToTheSameBits) {
  const std::uint64_t capacity = 4 * GetParam().least_kib << 10;
  std::string hash;
  std::vector<std::uint64_t> bytes;
  for (const Recompute recompute :
       {Recompute::kNothing, Recompute::kElements, Recompute::kBranches}) {
    CutRequest request{.model = model_, .training = training_, .size_bytes = {}, .batch_rows = {}};
    request.recompute = recompute;
    request.capacity_bytes = capacity;
    request.speed.workers = 2;
    request.tuple_bytes = 1ull << 30;
    request.task_inputs = 4096;
    const auto chosen = ChooseCuts(request, nullptr);
    ASSERT_TRUE(chosen);
    EXPECT_EQ(chosen->cuts.recompute, recompute);
    LoweringRunner runner(model_, training_, chosen->cuts);
    runner.Initialize();
    runner.Step(0, kSamples, inputs_, counted_);
    runner.Step(1, kSamples, inputs_, counted_);
    EXPECT_LE(runner.largest_need_bytes(), capacity);
    if (hash.empty()) hash = runner.Hash(2);
    EXPECT_EQ(runner.Hash(2), hash) << Summary(*chosen, kSamples);
    Pass pass;
    pass.job = "job";
    pass.rows = kSamples;
    const std::vector<PlannedTask> tasks = GraphTasks(model_, training_, chosen->cuts).Tasks(pass);
    EXPECT_EQ(static_cast<std::int64_t>(tasks.size()), chosen->cost.tasks);
    // Each box has one task for the whole forward pass, and each gradient is in one segment with
    // what it recomputes.
    GraphCuts apart = chosen->cuts;
    const LoweredGraph& graph = model_.TrainingOf(recompute);
    apart.training = PassesApart(graph, kSamples);
    LoweringRunner in_two(model_, training_, apart);
    in_two.Initialize();
    in_two.Step(0, kSamples, inputs_, counted_);
    in_two.Step(1, kSamples, inputs_, counted_);
    EXPECT_EQ(in_two.Hash(2), hash);
    bytes.push_back(ActivationBytes(GraphTasks(model_, training_, apart).Tasks(pass)));
  }
  const bool is_transformer = GetParam().name.starts_with("gpt") || GetParam().name == "llama" ||
                              GetParam().name == "bert" || GetParam().name == "vit";
  EXPECT_LE(bytes[1], bytes[0]);
  EXPECT_LE(bytes[2], bytes[1]);
  if (is_transformer) {
    EXPECT_LT(bytes[1], bytes[0]);
    EXPECT_LT(3 * bytes[2], 2 * bytes[0]);
  }
}

// It recomputes if the estimated time of a step improves; otherwise the graph does not change.
TEST_P(RecomputeTest, TheEstimateSaysWhetherToComputeAgain) {
  for (const std::uint64_t capacity : {GetParam().least_kib << 12, std::uint64_t{1} << 30}) {
    CutRequest request{.model = model_, .training = training_, .size_bytes = {}, .batch_rows = {}};
    request.capacity_bytes = capacity;
    request.tuple_bytes = 1ull << 30;
    request.task_inputs = 4096;
    const auto never = ChooseCuts(request, nullptr);
    request.recompute = std::nullopt;
    const auto chosen = ChooseCuts(request, nullptr);
    ASSERT_TRUE(never && chosen);
    EXPECT_LE(chosen->cost.step_us, never->cost.step_us);
    if (chosen->cuts.recompute == Recompute::kNothing) {
      EXPECT_EQ(chosen->cuts.training, never->cuts.training);
    } else {
      EXPECT_LT(chosen->cost.step_us, never->cost.step_us);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RecomputeTest, testing::ValuesIn(kSmallModels),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace acan
