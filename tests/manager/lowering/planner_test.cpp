// The planner's choices for models with layers of many sizes, and the resulting tasks.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/names.h"
#include "acan/manager/graph_planner.h"
#include "acan/manager/graph_tasks.h"
#include "acan/manager/task_cost.h"
#include "acan/model/gradients.h"
#include "acan/model/presets.h"

namespace acan {
namespace {

model::GptOptions TenMillionParameters() {
  model::GptOptions o;
  o.n_layer = 6;
  o.n_head = 6;
  o.n_embd = 384;
  o.block_size = 256;
  o.vocab_size = 96;
  return o;
}

struct Planned {
  Planned(std::int64_t batch, const std::function<model::Graph(model::Mode)>& of) {
    model.emplace(LoweredModel{
        LoweredGraph(
            std::make_shared<const model::Graph>(model::WithGradients(of(model::Mode::kTraining)))),
        LoweredGraph(std::make_shared<const model::Graph>(of(model::Mode::kEvaluation)))});
    training.batch = batch;
    training.optimizer = Optimizer::kAdamW;
  }
  CutRequest Request(std::uint64_t capacity, int workers) const {
    CutRequest request{.model = *model, .training = training, .size_bytes = {}, .batch_rows = {}};
    request.capacity_bytes = capacity;
    request.speed.workers = workers;
    request.tuple_bytes = 1ull << 30;
    request.task_inputs = 4096;
    return request;
  }

  std::optional<LoweredModel> model;
  Training training;
};

struct PlannedGpt : Planned {
  explicit PlannedGpt(std::int64_t batch, const model::GptOptions& o = TenMillionParameters())
      : Planned(batch, [&](model::Mode mode) { return model::Gpt(o, mode); }) {}
};

// A residual network of which only the head is trained, with 2 + 4 * `blocks` running statistics.
// Its images have as many pixels as a leaf of a sum has rows, so each sample may be a part.
model::Graph FineTunedResnet(std::int64_t blocks, model::Mode mode) {
  model::ResnetOptions o;
  o.image_size = {8, 8};
  o.widths = {8};
  o.blocks = {blocks};
  o.stem = model::ResnetStem::kSmall;
  o.num_classes = 10;
  model::Graph graph = model::Resnet(o, mode);
  model::Freeze(&graph, {"conv1.*", "bn1.*", "layer1.*"});
  return graph;
}

// Wide layers, of which each task holds a small part.
TEST(PlannerTest, EstimatesTheTasksThatAreReallyMade) {
  for (const std::int64_t batch : {5, 16}) {
    const PlannedGpt gpt(batch);
    for (const std::uint64_t mib : {1, 2, 4, 16, 1024}) {
      const std::uint64_t capacity = mib << 20;
      const auto chosen = ChooseCuts(gpt.Request(capacity, 2), nullptr);
      ASSERT_TRUE(chosen) << mib;
      EXPECT_LE(chosen->cost.largest_need_bytes, capacity);
      Pass pass;
      pass.job = "job";
      pass.rows = batch;
      std::uint64_t largest = 0, moved = 0;
      const GraphTasks graph_tasks(*gpt.model, gpt.training, chosen->cuts);
      const std::vector<PlannedTask> tasks = graph_tasks.Tasks(pass);
      for (const PlannedTask& task : tasks) {
        largest = std::max(largest, NeedBytes(task.task));
        for (const Piece& piece : task.task.pieces) {
          moved += BufferSpec{piece.rows, piece.cols}.bytes();
        }
        for (const Output& output : task.task.outputs) moved += output.view.bytes();
      }
      EXPECT_EQ(static_cast<std::int64_t>(tasks.size()), chosen->cost.tasks) << mib;
      EXPECT_EQ(moved, chosen->cost.moved_bytes) << mib;
      pass.train = false;
      for (const PlannedTask& task : graph_tasks.Tasks(pass)) {
        largest = std::max(largest, NeedBytes(task.task));
      }
      EXPECT_EQ(largest, chosen->cost.largest_need_bytes) << mib;
    }
  }
}

// The search has used its budget before it comes to what fits.
TEST(PlannerTest, WhatFitsIsFoundAfterAHopelessSearch) {
  model::GptOptions o;
  o.n_layer = 1;
  o.n_head = 2;
  o.n_embd = 64;
  o.block_size = 32;
  o.vocab_size = 96;
  const PlannedGpt gpt(4, o);
  std::uint64_t need = 0;
  ASSERT_FALSE(ChooseCuts(gpt.Request(1024, 2), &need));
  ASSERT_LT(need, 1ull << 30);
  CutRequest request = gpt.Request(need, 2);
  request.unfit_work = 1;
  EXPECT_FALSE(ChooseCuts(request, nullptr));
  const auto chosen = ChooseCuts(request, &need);
  ASSERT_TRUE(chosen);
  EXPECT_LE(chosen->cost.largest_need_bytes, request.capacity_bytes);
}

// Two workers get equal numbers of samples, even if the batch is not a power of two.
TEST(PlannerTest, CutsBatchesEvenly) {
  const PlannedGpt gpt(12);
  const auto chosen = ChooseCuts(gpt.Request(4ull << 30, 2), nullptr);
  ASSERT_TRUE(chosen);
  for (const Segment& segment : chosen->cuts.training) {
    EXPECT_EQ(12 % segment.rows.samples, 0) << segment.rows.samples;
    EXPECT_EQ(12 / segment.rows.samples % 2, 0) << segment.rows.samples;
  }
}

// Only for weights that can be cut: an embedding looks up any row of its table.
TEST(PlannerTest, NoTaskTouchesMoreWeightsThanTheJobAllows) {
  const auto of = [](model::Mode mode) {
    return std::make_shared<const model::Graph>(
        mode == model::Mode::kTraining
            ? model::WithGradients(model::Mlp({{512, 256, 10}, model::ActivationKind::kRelu}, mode))
            : model::Mlp({{512, 256, 10}, model::ActivationKind::kRelu}, mode));
  };
  const LoweredModel model{LoweredGraph(of(model::Mode::kTraining)),
                           LoweredGraph(of(model::Mode::kEvaluation))};
  Training training;
  training.batch = 4;
  for (const std::uint64_t kib : {16, 64, 4096}) {
    CutRequest request{
        .model = model, .training = training, .size_bytes = kib << 10, .batch_rows = {}};
    request.capacity_bytes = 1ull << 30;
    request.tuple_bytes = 1ull << 30;
    request.task_inputs = 4096;
    const auto chosen = ChooseCuts(request, nullptr);
    ASSERT_TRUE(chosen) << kib;
    const GraphTasks graph_tasks(model, training, chosen->cuts);
    std::set<tuplespace::Key> tiles;
    for (const TileCell& cell : graph_tasks.Tiles("job", 0)) tiles.insert(cell.key);
    std::uint64_t most = 0;
    for (const bool train : {true, false}) {
      Pass pass;
      pass.job = "job";
      pass.rows = training.batch;
      pass.train = train;
      for (const PlannedTask& task : graph_tasks.Tasks(pass)) {
        std::uint64_t touched = 0;
        for (const Piece& piece : task.task.pieces) {
          if (!tiles.contains(task.inputs[piece.input])) continue;
          touched += BufferSpec{piece.rows, piece.cols}.bytes();
        }
        most = std::max(most, touched);
      }
    }
    const std::uint64_t bias = 4 * 256;  // held together with a tile of its layer
    EXPECT_LE(most, (kib << 10) + bias);
    EXPECT_GE(most, std::min<std::uint64_t>(kib << 10, 4 * 512 * 256) / 2);
  }
}

// A model of `layers` narrow layers.
model::GptOptions NarrowGpt(std::int64_t layers, std::int64_t positions) {
  model::GptOptions o;
  o.n_layer = layers;
  o.n_head = 1;
  o.n_embd = 8;
  o.block_size = positions;
  o.vocab_size = 8;
  return o;
}

// The products with the head read whole groups of logits, which are much larger than the tiles of
// the table that serves as head and embedding.
TEST(PlannerTest, TiedNarrowTablesAreCutForTheirProducts) {
  model::GptOptions o = NarrowGpt(1, 65);
  o.n_embd = 4;
  o.vocab_size = 50'000;
  const PlannedGpt gpt(2, o);
  const auto chosen = ChooseCuts(gpt.Request(1 << 20, 1), nullptr);
  ASSERT_TRUE(chosen);
  EXPECT_LE(chosen->cost.largest_need_bytes, 1u << 20);
}

// The memory is so large that only the limits require small tasks. DecodeTask checks the tasks.
void ExpectTasksWithinLimits(const CutRequest& request) {
  const auto chosen = ChooseCuts(request, nullptr);
  ASSERT_TRUE(chosen);
  Pass pass;
  pass.job = "job";
  pass.rows = request.training.batch;
  for (const PlannedTask& task :
       GraphTasks(request.model, request.training, chosen->cuts).Tasks(pass)) {
    EXPECT_LE(task.inputs.size(), request.task_inputs) << task.key.ToString();
    EXPECT_NO_THROW(DecodeTask(EncodeTask(task.task), task.inputs.size())) << task.key.ToString();
  }
}

TEST(PlannerTest, NoTaskHasMoreRowsThanAHandlerTakes) {
  const PlannedGpt gpt(1 << 20, NarrowGpt(1, 32));  // 2^25 rows
  ExpectTasksWithinLimits(gpt.Request(std::uint64_t{1} << 40, 1));
}

TEST(PlannerTest, NoTaskHasMoreCallsThanAHandlerTakes) {
  const PlannedGpt gpt(2048, NarrowGpt(24, 65));
  ExpectTasksWithinLimits(gpt.Request(std::uint64_t{1} << 40, 1));
}

TEST(PlannerTest, NoUpdateHasMoreInputsThanTheSpaceTakes) {
  const PlannedGpt gpt(1024, NarrowGpt(100, 16));
  CutRequest request = gpt.Request(std::uint64_t{1} << 40, 1);
  request.batch_rows = 64;  // sixteen parts of each gradient
  ExpectTasksWithinLimits(request);
}

// The running statistics are so small that one task could have all of them.
TEST(PlannerTest, NoUpdateOfStatisticsHasMoreInputsThanTheSpaceTakes) {
  constexpr std::int64_t kBlocks = 16;
  const Planned resnet(64, [](model::Mode mode) { return FineTunedResnet(kBlocks, mode); });
  CutRequest request = resnet.Request(std::uint64_t{1} << 40, 1);
  request.batch_rows = 1;  // 64 parts of the sums of 66 statistics
  ExpectTasksWithinLimits(request);
}

// Each node alone: in boxes of four samples up to the first batch norm, and then of one; those of
// the head, which adds up one row per sample, for the whole batch.
std::vector<Segment> FinerAfterTheFirstNorm(const LoweredGraph& graph, std::int64_t batch) {
  std::vector<Segment> segments;
  std::int64_t samples = 4;
  for (std::int64_t id = 0; id < std::ssize(graph.nodes()); ++id) {
    const LoweredNode& node = graph.node(static_cast<int>(id));
    const bool is_of_head =
        std::any_of(node.operands.begin(), node.operands.end(), [&](int operand) {
          return operand >= 0 && graph.value(operand).IsOfSamples() &&
                 graph.value(operand).rows == 1;
        });
    segments.push_back({{id, id + 1}, {is_of_head ? batch : samples, 0}});
    if (node.part == NodePart::kBatchNorm) samples = 1;
  }
  return segments;
}

// Statistics of the same size are not alike if their sums have different numbers of parts.
TEST(PlannerTest, EstimatesTheUpdatesOfStatisticsByTheirParts) {
  constexpr std::int64_t kSamples = 8;
  const Planned resnet(kSamples, [](model::Mode mode) { return FineTunedResnet(1, mode); });
  const CutRequest request = resnet.Request(1ull << 30, 1);
  const auto chosen = ChooseCuts(request, nullptr);
  ASSERT_TRUE(chosen);
  GraphCuts cuts = chosen->cuts;
  cuts.update_bytes = 1;  // each has a task of its own
  cuts.training = FinerAfterTheFirstNorm(resnet.model->training, kSamples);
  Pass pass;
  pass.job = "job";
  pass.rows = kSamples;
  std::uint64_t moved = 0;
  for (const PlannedTask& task : GraphTasks(*resnet.model, resnet.training, cuts).Tasks(pass)) {
    moved += MovedBytes(task.task);
  }
  EXPECT_EQ(moved, CostOf(request, cuts).moved_bytes);
}

class UpdatesTest : public ::testing::TestWithParam<int> {
 protected:
  UpdatesTest() : gpt_(16), chosen_(ChooseCuts(gpt_.Request(1ull << 30, GetParam()), nullptr)) {
    Pass pass;
    pass.job = "job";
    pass.rows = 16;
    for (PlannedTask& task : GraphTasks(*gpt_.model, gpt_.training, chosen_->cuts).Tasks(pass)) {
      if (task.task.kind == TaskKind::kUpdate) updates_.push_back(std::move(task));
    }
  }

  PlannedGpt gpt_;
  std::optional<ChosenCuts> chosen_;
  std::vector<PlannedTask> updates_;
};

// Otherwise tiles would move between handlers, and so would the tasks that prefer their holders.
TEST_P(UpdatesTest, AreForWhoHoldsTheLargestOfTheirTiles) {
  ASSERT_FALSE(updates_.empty());
  for (const PlannedTask& update : updates_) {
    ASSERT_GE(update.affinity, 0) << update.key.ToString();
    const auto& tile = update.inputs.at(static_cast<std::size_t>(update.affinity));
    std::uint64_t largest = 0, of_tile = 0;
    for (const Output& output : update.task.outputs) {
      largest = std::max(largest, output.view.bytes());
      if (WithoutStep(output.key) == WithoutStep(tile)) of_tile = output.view.bytes();
    }
    EXPECT_EQ(of_tile, largest) << tile.ToString();
  }
}

// So that no worker waits long for the last update, and there are not too many small ones.
TEST_P(UpdatesTest, AreManyAndOfAboutTheSameSize) {
  const std::uint64_t share = chosen_->cuts.update_bytes;
  EXPECT_GE(updates_.size(), 3 * static_cast<std::size_t>(GetParam()));
  EXPECT_LE(updates_.size(), 8 * static_cast<std::size_t>(GetParam()));
  for (const PlannedTask& update : updates_) {
    std::uint64_t bytes = 0, largest = 0;
    for (const Output& output : update.task.outputs) {
      bytes += output.view.bytes();
      largest = std::max(largest, output.view.bytes());
    }
    const std::uint64_t states = 3;  // with AdamW: the values and two moments
    EXPECT_LE(bytes / states, std::max(share, largest) + share / 8) << update.key.ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, UpdatesTest, testing::Values(1, 2, 4));

}  // namespace
}  // namespace acan
