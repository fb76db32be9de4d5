// Along which axis layers are cut: by what the tasks of a step move, counted in the tasks
// themselves, against every other way of cutting.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "acan/manager/pass_tasks.h"
#include "acan/manager/plan.h"

namespace acan {
namespace {

struct Moved {
  double floats = 0;  // read and written by tasks; copied ones once more each way
  double copied = 0;  // put together or apart, because layers meet in different pieces
  std::size_t tasks = 0;
};

Moved MovedBy(const PlanRequest& request, const Plan& plan) {
  const PassTasks graph(request.model, request.training, plan);
  Pass pass;
  pass.job = "job";
  pass.rows = request.training.batch;
  Moved moved;
  for (const PlannedTask& planned : graph.Tasks(pass)) {
    const Task& task = planned.task;
    ++moved.tasks;
    for (const Piece& piece : task.pieces) {
      moved.floats += piece.rows * piece.cols;
      if (!CoversBuffer(piece, task)) moved.copied += piece.rows * piece.cols;
    }
    for (const Output& output : task.outputs) {
      const double floats = output.view.rows * output.view.cols;
      const BufferSpec& buffer = task.buffers[static_cast<std::size_t>(output.view.buffer)];
      moved.floats += floats;
      if (buffer.cols != output.view.cols) moved.copied += floats;
    }
  }
  moved.floats += 2 * moved.copied;
  return moved;
}

// The least floats moved by any cut into tiles of this size: each layer's weights halved
// `halvings` times, along either axis.
double LeastMoved(const PlanRequest& request, const Plan& like, int halvings) {
  const std::int64_t block = request.training.block;
  Plan plan = like;
  double least = std::numeric_limits<double>::infinity();
  const auto layers = plan.layers.size();
  std::vector<int> of_outputs(layers, 0);
  const auto cut = [&](std::size_t l) {
    const int layer = static_cast<int>(l);
    const int output_level = RootLevel(request.model.outputs(layer), block) - of_outputs[l];
    const int input_level =
        RootLevel(request.model.inputs(layer), block) - (halvings - of_outputs[l]);
    std::vector<TileRow> rows;
    for (const Range& o : NodesOfLevel(request.model.outputs(layer), block, output_level)) {
      rows.push_back({o, output_level, input_level, like.layers[l].rows.front().batch_level});
    }
    plan.layers[l].rows = rows;
  };
  for (;;) {
    for (std::size_t l = 0; l < layers; ++l) cut(l);
    least = std::min(least, MovedBy(request, plan).floats);
    std::size_t l = 0;
    while (l < layers && ++of_outputs[l] > halvings) of_outputs[l++] = 0;
    if (l == layers) return least;
  }
}

PlanRequest Request(std::vector<std::int64_t> layers, int workers) {
  PlanRequest request;
  request.model.layers = std::move(layers);
  request.model.loss = Loss::kMeanSquaredError;
  request.training.batch = 128;
  request.capacity_bytes = std::uint64_t{1} << 32;
  request.handlers = SharesOf(std::vector<double>(static_cast<std::size_t>(workers), 60), workers);
  request.overhead_us = 160;
  return request;
}

class Widths : public testing::TestWithParam<std::vector<std::int64_t>> {};

// With one worker to whom tasks cost nothing, bytes are all that differs between cuts.
TEST_P(Widths, NoOtherCutMovesLess) {
  PlanRequest request = Request(GetParam(), 1);
  request.handlers.gflops = 1e9;
  request.overhead_us = 1e-9;
  constexpr int kHalvings = 3;
  // All layers have the same number of weights for the largest tile that is allowed.
  request.size_bytes =
      4 * static_cast<std::uint64_t>(request.model.outputs(0) * request.model.inputs(0)) >>
      kHalvings;
  const std::optional<Plan> plan = MakePlan(request, nullptr);
  ASSERT_TRUE(plan);
  const double least = LeastMoved(request, *plan, kHalvings);
  EXPECT_LE(MovedBy(request, *plan).floats, 1.0001 * least) << plan->Summary();
}
INSTANTIATE_TEST_SUITE_P(All, Widths,
                         testing::Values(std::vector<std::int64_t>{1024, 1024, 1024, 1024},
                                         std::vector<std::int64_t>{512, 2048, 512, 2048},
                                         std::vector<std::int64_t>{2048, 512, 2048, 512},
                                         std::vector<std::int64_t>{1024, 1024, 1024, 1024, 1024}));

TEST(CutsTest, EqualLayersAreCutByOutputsAndInputsInTurn) {
  const PlanRequest request = Request({1024, 4096, 1024, 4096, 1024}, 4);
  const std::optional<Plan> plan = MakePlan(request, nullptr);
  ASSERT_TRUE(plan);
  for (const std::size_t l : {0u, 2u}) {
    EXPECT_EQ(plan->layers[l].rows.size(), 8u) << plan->Summary();
    EXPECT_EQ(plan->layers[l + 1].rows.size(), 1u) << plan->Summary();
  }
  EXPECT_EQ(MovedBy(request, *plan).copied, 0);
}

// Nobody needs gradients of a model's inputs, so cutting the first layer by outputs leaves nothing
// to be added up, however wide its inputs are.
TEST(CutsTest, TheFirstLayerHasNoPartsToAddUp) {
  PlanRequest request = Request({784, 512, 256, 10}, 2);
  request.model.loss = Loss::kCrossEntropy;
  const std::optional<Plan> plan = MakePlan(request, nullptr);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->layers[0].rows.size(), 2u) << plan->Summary();
  EXPECT_EQ(plan->layers[1].rows.size(), 1u) << plan->Summary();
  const Moved moved = MovedBy(request, *plan);
  EXPECT_EQ(moved.copied, 0);
  EXPECT_EQ(moved.tasks, 14u);
}

// Of tiles of one size the square ones need least beside them: before there are more tiles, those
// there are become squarer.
TEST(CutsTest, AsManyTilesAreCutSquarerForHandlersWithLittleMemory) {
  PlanRequest request = Request({2048, 2048}, 2);
  request.training.batch = 1024;
  const auto shape = [](const Plan& plan) {
    const TileRow& row = plan.layers[0].rows.front();
    return std::pair(plan.layers[0].rows.size(), 2048 >> (row.input_level + 6));
  };
  const std::optional<Plan> narrow = MakePlan(request, nullptr);
  ASSERT_TRUE(narrow);
  EXPECT_EQ(shape(*narrow), std::pair(std::size_t{1}, 4)) << narrow->Summary();
  request.capacity_bytes = narrow->largest_need_bytes - 1;
  const std::optional<Plan> square = MakePlan(request, nullptr);
  ASSERT_TRUE(square);
  EXPECT_EQ(shape(*square), std::pair(std::size_t{2}, 2)) << square->Summary();
}

}  // namespace
}  // namespace acan
