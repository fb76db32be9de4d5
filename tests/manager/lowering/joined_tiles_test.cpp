// Products in which one task multiplies several tiles. An update needs several times a tile's
// memory, so small handlers have tiles of which a product could hold more than one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acan/manager/graph_planner.h"
#include "acan/model/gradients.h"
#include "acan/model/presets.h"
#include "gradient_check.h"
#include "lowering_runner.h"

namespace acan {
namespace {

class JoinedTilesTest : public ::testing::Test {
 protected:
  JoinedTilesTest()
      : training_graph_(Make(model::Mode::kTraining)),
        model_{LoweredGraph(training_graph_), LoweredGraph(Make(model::Mode::kEvaluation))} {
    training_.optimizer = Optimizer::kMomentum;
    UseSamples(70);
  }

  void UseSamples(std::int64_t samples) {
    samples_ = samples;
    training_.batch = samples;
    model::Random random(3);
    for (const model::Input& input : training_graph_->inputs()) {
      inputs_[input.name] = model::RandomValue(*training_graph_, input.value, samples, &random);
    }
  }

  static std::shared_ptr<const model::Graph> Make(model::Mode mode) {
    model::Graph graph = model::Mlp({.layers = {784, 512, 256, 10},
                                     .activation = model::ActivationKind::kRelu,
                                     .loss = model::LossKind::kCrossEntropy},
                                    mode);
    if (mode == model::Mode::kEvaluation) return std::make_shared<const model::Graph>(graph);
    return std::make_shared<const model::Graph>(model::WithGradients(graph));
  }

  std::optional<ChosenCuts> Choose(std::uint64_t capacity, int workers = 4) const {
    CutRequest request{.model = model_, .training = training_, .size_bytes = {}, .batch_rows = {}};
    request.capacity_bytes = capacity;
    request.speed.workers = workers;
    request.tuple_bytes = 1ull << 30;
    request.task_inputs = 4096;
    return ChooseCuts(request, nullptr);
  }

  std::string HashOf(const GraphCuts& cuts) const {
    LoweringRunner runner(model_, training_, cuts);
    runner.Initialize();
    for (const std::int64_t step : {0, 1}) runner.Step(step, samples_, inputs_, samples_);
    runner.Evaluate(2, samples_, inputs_, samples_);
    return runner.Hash(2);
  }

  std::size_t TasksOf(const GraphCuts& cuts) const {
    Pass pass;
    pass.job = "job";
    pass.rows = samples_;
    return GraphTasks(model_, training_, cuts).Tasks(pass).size();
  }

  std::shared_ptr<const model::Graph> training_graph_;
  LoweredModel model_;
  Training training_;
  std::int64_t samples_ = 0;
  LoweringRunner::Inputs inputs_;
};

GraphCuts WithJoined(GraphCuts cuts, int levels) {
  for (std::vector<Segment>* segments : {&cuts.training, &cuts.evaluation}) {
    for (Segment& segment : *segments) segment.joined_levels = segment.by_tiles ? levels : 0;
  }
  return cuts;
}

TEST_F(JoinedTilesTest, SmallHandlersMultiplySeveralTilesAtOnce) {
  const auto chosen = Choose(512 << 10);
  ASSERT_TRUE(chosen);
  const std::vector<Segment>& segments = chosen->cuts.training;
  EXPECT_TRUE(std::any_of(segments.begin(), segments.end(),
                          [](const Segment& segment) { return segment.joined_levels > 0; }));
  EXPECT_LT(TasksOf(chosen->cuts), TasksOf(WithJoined(chosen->cuts, 0)));
  LoweringRunner runner(model_, training_, chosen->cuts);
  runner.Initialize();
  runner.Step(0, samples_, inputs_, samples_);
  EXPECT_LE(runner.largest_need_bytes(), chosen->cost.largest_need_bytes);
  EXPECT_LE(chosen->cost.largest_need_bytes, 512 << 10);
  EXPECT_EQ(static_cast<std::int64_t>(TasksOf(chosen->cuts)), chosen->cost.tasks);
}

// The last node over 784 inputs is shorter than the others and has no sibling.
TEST_F(JoinedTilesTest, AnyNumberOfTilesTrainsTheSameBits) {
  const auto whole = Choose(1 << 30);
  const auto chosen = Choose(512 << 10);
  ASSERT_TRUE(whole && chosen);
  const std::string hash = HashOf(whole->cuts);
  EXPECT_EQ(HashOf(chosen->cuts), hash);
  for (const int levels : {0, 1, 2, 3, 4}) {
    EXPECT_EQ(HashOf(WithJoined(chosen->cuts, levels)), hash) << levels;
  }
}

// The updates compute the gradient of the first layer by tiles. Boxes of rows compute everything
// else, and do not put the tiles together.
TEST_F(JoinedTilesTest, BoxesOfRowsMultiplyTheTilesOfTheFirstLayer) {
  UseSamples(128);
  const auto one = Choose(1 << 30, 1);
  const auto two = Choose(1 << 30, 2);
  ASSERT_TRUE(one && two);
  const std::vector<Segment>& segments = two->cuts.training;
  EXPECT_TRUE(std::any_of(segments.begin(), segments.end(),
                          [](const Segment& segment) { return segment.in_updates; }));
  EXPECT_FALSE(std::any_of(segments.begin(), segments.end(),
                           [](const Segment& segment) { return segment.by_tiles; }));
  EXPECT_EQ(two->cost.tasks, 4);  // for each worker a box of rows and an update
  EXPECT_EQ(HashOf(two->cuts), HashOf(one->cuts));
  Pass pass;
  pass.job = "job";
  pass.rows = samples_;
  int multiplied = 0;
  for (const PlannedTask& planned : GraphTasks(model_, training_, two->cuts).Tasks(pass)) {
    for (const Piece& piece : planned.task.pieces) {
      if (piece.cols != 784 || piece.rows != 256) continue;
      EXPECT_TRUE(CoversBuffer(piece, planned.task));
      multiplied += planned.task.kind == TaskKind::kUpdate ? 0 : 1;
    }
  }
  EXPECT_EQ(multiplied, 4);  // both tiles, in each of two boxes
}

// Both updates compute half of the first layer's gradient, which takes most of their time. The one
// that also updates the second layer's weight leaves everything else to the other one.
TEST_F(JoinedTilesTest, UpdatesShareTheOtherParametersByTheirTime) {
  UseSamples(128);
  const auto two = Choose(1 << 30, 2);
  ASSERT_TRUE(two);
  Pass pass;
  pass.job = "job";
  pass.rows = samples_;
  std::vector<std::vector<std::uint64_t>> made;  // bytes, by update
  for (const PlannedTask& planned : GraphTasks(model_, training_, two->cuts).Tasks(pass)) {
    if (planned.task.kind != TaskKind::kUpdate) continue;
    made.emplace_back();
    for (const Output& output : planned.task.outputs) made.back().push_back(output.view.bytes());
  }
  ASSERT_EQ(made.size(), 2u);
  std::ranges::sort(made, {}, &std::vector<std::uint64_t>::size);
  // The values and momentums of a tile of the first layer and of the second layer's weight.
  const std::uint64_t tile = 4 * 256 * 784, weight = 4 * 256 * 512;
  EXPECT_EQ(made.front(), (std::vector<std::uint64_t>{tile, tile, weight, weight}));
}

}  // namespace
}  // namespace acan
