// Plans and graphs: under any cut, every task has its inputs and fits, and the weights have the
// same bits. These bits are also right: gradients are compared with finite differences in float64.
#include "acan/manager/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <random>
#include <vector>

#include "acan/manager/pass_tasks.h"
#include "acan/manager/task_cost.h"
#include "graph_runner.h"

namespace acan {
namespace {

struct Batch {
  std::vector<float> inputs, targets;
};

Batch MakeBatch(const Perceptron& model, std::int64_t rows, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  Batch batch;
  for (std::int64_t i = 0; i < rows * model.layers.front(); ++i)
    batch.inputs.push_back(uniform(random));
  if (model.loss == Loss::kCrossEntropy) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto label =
          static_cast<std::int32_t>(random() % static_cast<unsigned>(model.layers.back()));
      float bits = 0;
      std::memcpy(&bits, &label, 4);
      batch.targets.push_back(bits);
    }
  } else {
    for (std::int64_t i = 0; i < rows * model.layers.back(); ++i)
      batch.targets.push_back(uniform(random));
  }
  return batch;
}

struct MlpRequest : PlanRequest {
  Perceptron mlp;
  std::optional<Plan> Make(std::uint64_t* smallest_need_bytes = nullptr) const {
    PlanRequest request = *this;
    request.model = LowerModel(BuildModel(mlp));
    return MakePlan(request, smallest_need_bytes);
  }
};

MlpRequest RaggedRequest(Optimizer optimizer) {
  MlpRequest request;
  request.mlp.layers = {97, 211, 53, 10};
  request.training.batch = 137;
  request.training.optimizer = optimizer;
  request.training.weight_decay = 0.01;
  request.training.learning_rate = 0.05;
  request.capacity_bytes = 1ull << 30;
  return request;
}

std::string TrainTwoSteps(const MlpRequest& request, std::size_t* tasks = nullptr) {
  std::uint64_t smallest = 0;
  const std::optional<Plan> plan = request.Make(&smallest);
  if (!plan) return "no plan: needs " + std::to_string(smallest);
  GraphRunner runner(request.mlp, request.training, *plan);
  runner.Initialize();
  // The second batch is shorter, like the last one of an epoch.
  const Batch first = MakeBatch(request.mlp, 137, 1);
  const Batch second = MakeBatch(request.mlp, 37, 2);
  runner.Step(0, 2, first.inputs, first.targets, 137);
  runner.Step(1, 2, second.inputs, second.targets, 37);
  if (tasks != nullptr) *tasks = runner.tasks_run();
  return runner.Hash(2);
}

class AnyOptimizer : public testing::TestWithParam<Optimizer> {};

TEST_P(AnyOptimizer, EveryCutGivesTheSameBits) {
  const MlpRequest whole = RaggedRequest(GetParam());
  std::size_t whole_tasks = 0;
  const std::string expected = TrainTwoSteps(whole, &whole_tasks);
  for (const std::uint64_t capacity : {1u << 20, 300u << 10, 150u << 10}) {
    for (const std::optional<std::int64_t> rows :
         {std::optional<std::int64_t>(), std::optional<std::int64_t>(64)}) {
      for (const std::optional<std::uint64_t> size :
           {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(16 << 10),
            std::optional<std::uint64_t>(40'000)}) {
        for (const int workers : {1, 8}) {
          MlpRequest request = whole;
          request.capacity_bytes = capacity;
          request.batch_rows = rows;
          request.size_bytes = size;
          request.speed.workers = workers;
          std::size_t tasks = 0;
          ASSERT_EQ(TrainTwoSteps(request, &tasks), expected)
              << capacity << " bytes, rows " << rows.value_or(0) << ", size " << size.value_or(0);
          EXPECT_GE(tasks, whole_tasks);
        }
      }
    }
  }
}

std::vector<Optimizer> AllOptimizers() {
  std::vector<Optimizer> all;
  for (const OptimizerRow& row : kOptimizers) all.push_back(row.optimizer);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, AnyOptimizer, testing::ValuesIn(AllOptimizers()));

TEST(PlanTest, GeluKeepsWhatItsSlopeNeedsUnderAnyCut) {
  MlpRequest request = RaggedRequest(Optimizer::kSgd);
  request.mlp.activation = Activation::kGelu;
  request.mlp.loss = Loss::kMeanSquaredError;
  const std::string expected = TrainTwoSteps(request);
  request.size_bytes = 16 << 10;
  request.batch_rows = 64;
  EXPECT_EQ(TrainTwoSteps(request), expected);
}

TEST(PlanTest, ThePapersHandlersHoldOneTile) {
  MlpRequest request;
  request.mlp.layers = {1024, 1024, 1};
  request.mlp.loss = Loss::kMeanSquaredError;
  request.training.batch = 1;
  request.capacity_bytes = 60 << 10;
  request.size_bytes = 16 << 10;
  const std::optional<Plan> plan = request.Make();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->cuts.parameters[0], (ParameterCut{0, 0})) << plan->summary;
  EXPECT_LE(plan->largest_need_bytes, 60u << 10);
}

TEST(PlanTest, SaysWhatTheSmallestBoxesNeed) {
  MlpRequest request = RaggedRequest(Optimizer::kAdamW);
  request.capacity_bytes = 10'000;
  std::uint64_t smallest = 0;
  EXPECT_FALSE(request.Make(&smallest));
  EXPECT_GT(smallest, 6u * 64 * 64 * 4);
  request.capacity_bytes = smallest;
  EXPECT_TRUE(request.Make()) << "what it says is enough must be enough";
}

// Handlers may have room for more than the largest tuple.
TEST(PlanTest, NoTupleIsLargerThanTheSpaceTakes) {
  MlpRequest request = RaggedRequest(Optimizer::kAdamW);
  const std::string expected = TrainTwoSteps(request);
  request.tuple_bytes = 20 << 10;  // a tile of 64 x 64 is 16 KiB
  const std::optional<Plan> plan = request.Make();
  ASSERT_TRUE(plan);
  Pass pass;
  pass.job = "job";
  pass.rows = request.training.batch;
  const PassTasks graph(LowerModel(BuildModel(request.mlp)), request.training, *plan);
  for (const PlannedTask& task : graph.Tasks(pass)) {
    for (const Output& output : task.task.outputs) {
      EXPECT_LE(output.view.bytes(), request.tuple_bytes) << task.key.ToString();
    }
  }
  EXPECT_EQ(TrainTwoSteps(request), expected);
}

TEST(PlanTest, NoTaskHasMoreInputsThanTheSpaceTakes) {
  MlpRequest request;
  request.mlp.layers = {64, 1};
  request.mlp.loss = Loss::kMeanSquaredError;
  request.training.batch = 64 * 6000;
  request.batch_rows = 64;  // 6,000 gradients of one tile
  request.capacity_bytes = 1ull << 40;
  const std::optional<Plan> plan = request.Make();
  ASSERT_TRUE(plan);
  Pass pass;
  pass.job = "job";
  pass.rows = request.training.batch;
  const PassTasks graph(LowerModel(BuildModel(request.mlp)), request.training, *plan);
  for (const PlannedTask& task : graph.Tasks(pass)) {
    EXPECT_LE(task.inputs.size(), request.task_inputs) << task.key.ToString();
  }
}

// ---- right, not only consistent -----------------------------------------------------------------

double Activate(Activation activation, double x, double bound) {
  switch (activation) {
    case Activation::kIdentity:
      return x;
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kClippedRelu:
      return x > 0 && x <= bound ? x : 0;
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::kGelu:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case Activation::kGeluTanh:
      return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
  }
  return 0;
}

// The loss of the whole network, written independently in float64.
double LossInDouble(const Perceptron& model, const std::vector<std::vector<double>>& tensors,
                    const Batch& batch, std::int64_t rows) {
  double loss = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<double> x(batch.inputs.begin() + row * model.layers[0],
                          batch.inputs.begin() + (row + 1) * model.layers[0]);
    for (int l = 0; l < model.layer_count(); ++l) {
      std::vector<double> z;
      for (std::int64_t o = 0; o < model.outputs(l); ++o) {
        double sum = tensors[static_cast<std::size_t>(2 * l + 1)][static_cast<std::size_t>(o)];
        for (std::int64_t i = 0; i < model.inputs(l); ++i) {
          sum += tensors[static_cast<std::size_t>(2 * l)]
                        [static_cast<std::size_t>(o * model.inputs(l) + i)] *
                 x[static_cast<std::size_t>(i)];
        }
        z.push_back(l + 1 == model.layer_count()
                        ? sum
                        : Activate(model.activation, sum, static_cast<double>(model.clip_bound)));
      }
      x = z;
    }
    if (model.loss == Loss::kCrossEntropy) {
      std::int32_t label = 0;
      std::memcpy(&label, &batch.targets[static_cast<std::size_t>(row)], 4);
      double sum = 0;
      for (const double v : x) sum += std::exp(v);
      loss += (std::log(sum) - x[static_cast<std::size_t>(label)]) / static_cast<double>(rows);
    } else {
      for (std::size_t o = 0; o < x.size(); ++o) {
        const double d =
            x[o] - static_cast<double>(batch.targets[static_cast<std::size_t>(row) * x.size() + o]);
        loss += d * d / static_cast<double>(rows * model.layers.back());
      }
    }
  }
  return loss;
}

class Gradients : public testing::TestWithParam<std::tuple<Activation, Loss>> {};

TEST_P(Gradients, AgreeWithFiniteDifferencesInDouble) {
  MlpRequest request;
  request.mlp.layers = {19, 23, 17, 5};
  request.mlp.activation = std::get<0>(GetParam());
  request.mlp.clip_bound = 0.4f;
  request.mlp.loss = std::get<1>(GetParam());
  request.training.batch = 21;
  request.training.block = 16;
  request.training.learning_rate = 1.0;  // so that the gradient is the difference of two versions
  request.capacity_bytes = 1 << 20;
  request.size_bytes = 16 * 16 * 4;
  request.batch_rows = 16;
  const std::optional<Plan> plan = request.Make();
  ASSERT_TRUE(plan);
  GraphRunner runner(request.mlp, request.training, *plan);
  runner.Initialize();
  const Batch batch = MakeBatch(request.mlp, 21, 3);
  runner.Step(0, 1, batch.inputs, batch.targets, 21);

  std::vector<std::vector<double>> tensors;
  const std::vector<model::Parameter>& parameters = runner.parameters();
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    const std::vector<float> values = runner.ValueOf(index, 0);
    tensors.emplace_back(values.begin(), values.end());
  }
  float loss = 0;
  for (const std::vector<float>& sums : runner.losses()) loss += sums[0];
  const double per_sample = request.mlp.loss == Loss::kCrossEntropy ? 1 : 5;
  EXPECT_NEAR(static_cast<double>(loss) / (21 * per_sample),
              LossInDouble(request.mlp, tensors, batch, 21), 1e-6);

  std::mt19937 random(4);
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    const std::vector<float> after = runner.ValueOf(index, 1);
    for (int i = 0; i < 25; ++i) {
      const std::size_t at = random() % after.size();
      auto moved = tensors;
      constexpr double kStep = 1e-6;
      moved[index][at] += kStep;
      const double above = LossInDouble(request.mlp, moved, batch, 21);
      moved[index][at] -= 2 * kStep;
      const double below = LossInDouble(request.mlp, moved, batch, 21);
      const double expected = (above - below) / (2 * kStep);
      const double gradient = tensors[index][at] - static_cast<double>(after[at]);
      EXPECT_NEAR(gradient, expected, 2e-6) << parameters[index].name << " element " << at;
    }
  }
}
std::vector<Activation> AllActivations() {
  std::vector<Activation> all;
  for (const ActivationRow& row : kActivations) all.push_back(row.activation);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, Gradients,
                         testing::Combine(testing::ValuesIn(AllActivations()),
                                          testing::Values(Loss::kCrossEntropy,
                                                          Loss::kMeanSquaredError)));

TEST(SharesTest, CountThreadsOfEqualHandlersAndSpeedsOfUnequalOnes) {
  const WorkerSpeed equal = SpeedOf({100, 96, 103, 99}, 4);
  EXPECT_EQ(equal.workers, 4);
  EXPECT_EQ(equal.slowest_share, 0);
  EXPECT_DOUBLE_EQ(equal.gflops, 99.5);
  const WorkerSpeed unequal = SpeedOf({1, 5, 5, 10}, 4);
  EXPECT_EQ(unequal.workers, 4) << "21 over 5: the slowest does a twentieth, and does not matter";
  EXPECT_DOUBLE_EQ(unequal.slowest_share, 21);
  EXPECT_EQ(SpeedOf({20'000, 100}, 2).workers, 2) << "the processor beside the GPU";
  EXPECT_EQ(SpeedOf({200, 50, 50}, 3).workers, 6);
  EXPECT_EQ(SpeedOf({}, 0).workers, 1);
  EXPECT_GE(SpeedOf({0, 0}, 2).workers, 2);
}

MlpRequest WideLayer(WorkerSpeed speed, double overhead_us) {
  MlpRequest request;
  request.mlp.layers = {2048, 2048};
  request.mlp.loss = Loss::kMeanSquaredError;
  request.training.batch = 64;
  request.capacity_bytes = std::uint64_t{1} << 30;
  request.speed = speed;
  request.speed.overhead_us = overhead_us;
  return request;
}

std::int64_t TasksOf(const MlpRequest& request) {
  const std::optional<Plan> plan = request.Make();
  return plan ? plan->tasks_per_step : 0;
}

TEST(PlanTest, TasksAreAsManyAsTheirOverheadAllows) {
  const auto tasks_of = [](double overhead_us) {
    MlpRequest request = WideLayer(SpeedOf({20'000, 20'000}, 2), overhead_us);
    request.mlp.layers = {2048, 2048, 2048};
    return TasksOf(request);
  };
  EXPECT_GT(tasks_of(1), tasks_of(10'000));
}

// With two workers, the middle layer is cut into tiles: no task has its whole gradient, and the
// updates compute it. If it were cut by rows, each worker would make and transfer all gradients.
TEST(PlanTest, WideLayersOfGraphsAreCutByTheirWeights) {
  MlpRequest request = WideLayer(SpeedOf({160, 160}, 2), 80);
  request.mlp.layers = {784, 4096, 4096, 10};
  request.training.batch = 512;
  const std::optional<Plan> plan = request.Make();
  ASSERT_TRUE(plan);
  const auto by_tiles = [](const Segment& segment) { return segment.by_tiles; };
  const auto in_updates = [](const Segment& segment) { return segment.in_updates; };
  const std::vector<Segment>& segments = plan->cuts.training;
  EXPECT_GE(std::count_if(segments.begin(), segments.end(), by_tiles), 3) << plan->summary;
  EXPECT_GE(std::count_if(segments.begin(), segments.end(), in_updates), 2) << plan->summary;
  // A small model with few rows is not worth cutting.
  request.mlp.layers = {64, 64, 10};
  const std::optional<Plan> of_small = request.Make();
  ASSERT_TRUE(of_small);
  EXPECT_EQ(of_small->cuts.training.size(), 1u) << of_small->summary;
}

// The tiles of consecutive layers agree, so that few inputs are assembled from smaller ones, and no
// worker is left with a sum while the other one waits.
TEST(PlanTest, WideLayersMeetInTheSamePieces) {
  MlpRequest request = WideLayer(SpeedOf({160, 160}, 2), 0);
  request.mlp.layers = {784, 4096, 4096, 10};
  for (const std::int64_t batch : {128, 512}) {
    request.training.batch = batch;
    const std::optional<Plan> plan = request.Make();
    ASSERT_TRUE(plan);
    Pass pass;
    pass.job = "job";
    pass.rows = batch;
    std::uint64_t copied = 0;
    std::map<int, std::vector<double>> sums_us;
    for (const PlannedTask& task :
         PassTasks(LowerModel(BuildModel(request.mlp)), request.training, *plan).Tasks(pass)) {
      copied += CopiedBytes(task.task);
      if (StageOf(task.priority) == 1) sums_us[task.segment].push_back(TaskUs({2}, task.task));
    }
    const auto activations = static_cast<std::uint64_t>(4 * batch * (784 + 2 * 4096));
    EXPECT_LE(copied, 4 * activations) << plan->summary;
    for (const auto& [segment, us] : sums_us) EXPECT_GE(us.size(), 2u) << segment;
  }
}

TEST(PlanTest, UnequalHandlersGetMoreAndSmallerBoxesIfThatIsWorthIt) {
  const WorkerSpeed equal = SpeedOf({0.1, 0.1, 0.1, 0.1}, 4);
  const WorkerSpeed unequal = SpeedOf({0.02, 0.1, 0.1, 0.2}, 4);
  EXPECT_GT(TasksOf(WideLayer(unequal, 80)), 8 * TasksOf(WideLayer(equal, 80)));
  EXPECT_EQ(TasksOf(WideLayer(unequal, 1e9)), TasksOf(WideLayer(equal, 1e9)))
      << "each box would cost more than it takes";
}

}  // namespace
}  // namespace acan
