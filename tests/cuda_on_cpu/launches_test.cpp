// How many kernels the CUDA backend launches. A launch takes the host some microseconds, so models
// of many small calls would wait for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "acan/core/device.h"
#include "acan/core/run_calls.h"
#include "acan/core/task.h"
#include "acan/cuda/cuda_devices.h"
#include "acan/manager/graph_planner.h"
#include "acan/model/gradients.h"
#include "acan/model/presets.h"
#include "fake_gpu.h"
#include "gradient_check.h"
#include "lowering_runner.h"

namespace cuda_on_cpu {
namespace {

namespace model = acan::model;

std::unique_ptr<acan::Device> NewDevice(std::uint64_t limit_bytes, const char* gpu = "sm_90") {
  Options options;
  options.gpus = {gpu};
  Configure(options);
  acan::cuda::DeviceOptions choice;
  choice.memory_limit_bytes = limit_bytes;
  return acan::cuda::MakeDevice(choice);
}

// ---- gradients over groups of rows -------------------------------------------------------------

struct RowsInGroups {
  std::int32_t group_rows, rows, m, n;
};

class GroupsOfRows {
 public:
  GroupsOfRows(acan::Device& device, const RowsInGroups& of)
      : device_(device),
        of_(of),
        dy_(Drawn(of.rows * of.m, 1)),
        x_(Drawn(of.rows * of.n, 2)),
        sum_(NewSum()) {}

  // The launches of the call; nullopt: the device refuses it, and does nothing.
  std::optional<std::uint64_t> LaunchesInOneCall(
      acan::Precision precision = acan::Precision::kExact) {
    const std::uint64_t before = CountsOf(0).launches;
    const bool taken = InOneCall(precision);
    const std::uint64_t launches = CountsOf(0).launches - before;
    EXPECT_EQ(taken, launches > 0);
    if (!taken) return std::nullopt;
    return launches;
  }

  // The launches of the calls of a plan, with those that RunCalls gives to the device as one.
  std::uint64_t LaunchesOfAPlan() {
    const acan::Task task = Plan();
    const std::uint64_t before = CountsOf(0).launches;
    acan::RunCalls(device_, task, BuffersFor(task, sum_));
    return CountsOf(0).launches - before;
  }

  // All that the device does for the call in fast precision, launches of acan's kernels or not.
  std::uint64_t OperationsOfAFastCall() {
    device_.Synchronize();
    const std::uint64_t before = CountsOf(0).operations;
    EXPECT_TRUE(InOneCall(acan::Precision::kFast));
    device_.Synchronize();
    return CountsOf(0).operations - before;
  }

  // REQUIRES: the sum was computed. The allowed difference of 0 is one of bits.
  void CompareWithSingleCalls(float allowed_difference = 0) {
    const std::vector<float> got = WordsOf(sum_), want = WordsOf(OneByOne());
    if (allowed_difference == 0) {
      EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0);
      return;
    }
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], allowed_difference) << i;
    }
  }

 private:
  static constexpr std::int32_t kBlock = 16;
  enum : std::int32_t { kDy, kX, kFirstSum };  // buffers of a plan

  bool InOneCall(acan::Precision precision) {
    return device_.GemmGroups(precision, kBlock, of_.group_rows,
                              {dy_.get(), 0, of_.rows, of_.m, of_.m},
                              {x_.get(), 0, of_.rows, of_.n, of_.n}, WholeSum(sum_));
  }

  acan::BufferPtr Drawn(std::int64_t words, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<float> values(static_cast<std::size_t>(words));
    for (float& value : values) value = static_cast<float>(random() % 2000) / 999.0f - 1.0f;
    return device_.Upload(tuplespace::Payload::Copy(values.data(), values.size() * 4));
  }
  acan::BufferPtr NewSum() {
    return device_.Allocate(static_cast<std::uint64_t>(of_.m * of_.n) * 4);
  }
  acan::Matrix WholeSum(const acan::BufferPtr& buffer) const {
    return {buffer.get(), 0, of_.m, of_.n, of_.n};
  }
  std::vector<float> WordsOf(const acan::BufferPtr& sum) {
    const tuplespace::Payload payload = device_.Download(sum, WholeSum(sum));
    std::vector<float> words(payload.size() / sizeof(float));
    std::memcpy(words.data(), payload.data(), payload.size());
    return words;
  }

  // The calls that plans make: after each group, as many sums are added as its number has trailing
  // one bits.
  acan::Task Plan() const {
    acan::Task task;
    task.block = kBlock;
    task.buffers = {{of_.rows, of_.m}, {of_.rows, of_.n}};
    std::int32_t open = kFirstSum;
    const auto whole_sum = [&](std::int32_t buffer) {
      return acan::View{buffer, 0, 0, of_.m, of_.n};
    };
    const auto add_last = [&] {
      --open;
      acan::Call call;
      call.kernel = acan::Kernel::kAdd;
      call.views = {whole_sum(open - 1), whole_sum(open - 1), whole_sum(open)};
      task.calls.push_back(call);
    };
    std::uint64_t group = 0;
    for (std::int32_t row = 0; row < of_.rows; row += of_.group_rows) {
      const std::int32_t rows = std::min(of_.group_rows, of_.rows - row);
      if (open == static_cast<std::int32_t>(task.buffers.size())) {
        task.buffers.push_back({of_.m, of_.n});
      }
      acan::Call call;
      call.gemm = true;
      call.form = acan::GemmForm::kGradient;
      call.views = {{kDy, row, 0, rows, of_.m}, {kX, row, 0, rows, of_.n}, whole_sum(open++)};
      task.calls.push_back(call);
      for (std::uint64_t bits = group++; (bits & 1) != 0; bits >>= 1) add_last();
    }
    while (open > kFirstSum + 1) add_last();
    return task;
  }
  std::vector<acan::BufferPtr> BuffersFor(const acan::Task& plan, const acan::BufferPtr& sum) {
    std::vector<acan::BufferPtr> buffers{dy_, x_, sum};
    while (buffers.size() < plan.buffers.size()) buffers.push_back(NewSum());
    return buffers;
  }
  acan::BufferPtr OneByOne() {
    acan::Task task = Plan();
    const std::vector<acan::BufferPtr> buffers = BuffersFor(task, NewSum());
    for (const acan::Call& call : std::exchange(task.calls, {})) {
      task.calls = {call};
      acan::RunCalls(device_, task, buffers);
    }
    return buffers[kFirstSum];
  }

  acan::Device& device_;
  RowsInGroups of_;
  acan::BufferPtr dy_, x_, sum_;
};

// One launch has the products, and each further one adds up to 16 neighbours.
TEST(GroupsOfRowsTest, AreAFewLaunches) {
  const auto device = NewDevice(16 << 20);
  for (const auto& [of, launches] :
       {std::pair{RowsInGroups{50, 349, 13, 18}, 2u}, std::pair{RowsInGroups{50, 6400, 13, 18}, 3u},
        std::pair{RowsInGroups{2, 599, 8, 12}, 4u}}) {
    GroupsOfRows groups(*device, of);
    ASSERT_EQ(groups.LaunchesInOneCall(), launches) << of.rows;
    groups.CompareWithSingleCalls();
  }
}

// The workspace of 1 MiB has room for 64 sums: those of 32 groups, and of the four batches.
TEST(GroupsOfRowsTest, ComeInBatchesIfTheyDoNotFit) {
  const auto device = NewDevice(16 << 20);
  for (const std::int32_t rows : {383, 289}) {  // the last batch has 32 groups, or one
    GroupsOfRows groups(*device, {3, rows, 64, 64});
    const std::optional<std::uint64_t> launches = groups.LaunchesInOneCall();
    ASSERT_TRUE(launches);
    EXPECT_LE(*launches, 13u);
    groups.CompareWithSingleCalls();
  }
}

TEST(GroupsOfRowsTest, AreRefusedWithoutAnyEffect) {
  {
    const auto device = NewDevice(16 << 20);
    GroupsOfRows large(*device, {2, 16, 300, 300});
    EXPECT_FALSE(large.LaunchesInOneCall()) << "the workspace has room for two sums";
    GroupsOfRows one(*device, {50, 50, 13, 18});
    EXPECT_FALSE(one.LaunchesInOneCall()) << "there is one group";
    GroupsOfRows few(*device, {784, 1568, 16, 144});
    EXPECT_FALSE(few.LaunchesInOneCall()) << "each group is faster in parts of its own";
  }
  const auto poor = NewDevice(8 << 20);
  for (const auto precision : {acan::Precision::kExact, acan::Precision::kFast}) {
    EXPECT_FALSE(GroupsOfRows(*poor, {50, 349, 13, 18}).LaunchesInOneCall(precision))
        << "there is no workspace, for cuBLAS neither";
  }
  const auto old = NewDevice(16 << 20, "sm_75");
  EXPECT_FALSE(GroupsOfRows(*old, {50, 349, 13, 18}).LaunchesInOneCall());
}

// The workspace of 1 MiB has room for two sums, so of eight groups only the pairs that no addition
// separates are computed together: the third and the fourth, and the last two.
TEST(GroupsOfRowsTest, OfARefusedSumMayBePartsOfSmallerSums) {
  const auto device = NewDevice(16 << 20);
  GroupsOfRows groups(*device, {2, 16, 300, 300});
  EXPECT_EQ(groups.LaunchesOfAPlan(), 13u) << "one by one they are 15";
  groups.CompareWithSingleCalls();
}

TEST(GroupsOfRowsTest, OfFastPrecisionAreOneProductOfCublas) {
  for (const char* gpu : {"sm_90", "sm_75"}) {
    const auto device = NewDevice(16 << 20, gpu);
    GroupsOfRows groups(*device, {50, 349, 13, 18});
    EXPECT_EQ(groups.OperationsOfAFastCall(), 1u) << gpu;
    groups.CompareWithSingleCalls(/*allowed_difference=*/1e-3f);
  }
}

// ---- training steps ----------------------------------------------------------------------------

using MakeModel = std::function<model::Graph(model::Mode)>;

// The launches of a training step, which trains the CPU's weights.
std::uint64_t LaunchesOfAStep(const MakeModel& make, std::int64_t samples) {
  const auto graph =
      std::make_shared<const model::Graph>(model::WithGradients(make(model::Mode::kTraining)));
  const acan::LoweredModel lowered = acan::LowerGraphs(*graph, make(model::Mode::kEvaluation));
  acan::Training training;
  training.batch = samples;
  training.seed = 7;
  training.block = 16;
  training.optimizer = acan::Optimizer::kMomentum;
  training.learning_rate = 0.1;
  training.momentum = 0.9;
  acan::CutRequest request{
      .model = lowered, .training = training, .size_bytes = {}, .batch_rows = {}};
  request.capacity_bytes = 1 << 30;
  request.tuple_bytes = 1 << 30;
  request.task_inputs = 4096;
  const std::optional<acan::ChosenCuts> chosen = acan::ChooseCuts(request, nullptr);
  if (!chosen) {
    ADD_FAILURE() << "no cuts fit";
    return 0;
  }
  acan::LoweringRunner::Inputs inputs;
  model::Random random(11);
  for (const model::Input& input : graph->inputs()) {
    inputs[input.name] = model::RandomValue(*graph, input.value, samples, &random);
  }
  std::int64_t counted = 0;
  for (const double label : inputs.at("labels").values) counted += label >= 0 ? 1 : 0;

  acan::LoweringRunner on_gpu(lowered, training, chosen->cuts, NewDevice(64 << 20));
  on_gpu.Initialize();
  const std::uint64_t before = CountsOf(0).launches;
  on_gpu.Step(0, samples, inputs, counted);
  const std::uint64_t launches = CountsOf(0).launches - before;
  acan::LoweringRunner on_cpu(lowered, training, chosen->cuts);
  on_cpu.Initialize();
  on_cpu.Step(0, samples, inputs, counted);
  EXPECT_EQ(on_gpu.Hash(1), on_cpu.Hash(1));
  return launches;
}

// A sample has 32 rows, which are two leaves, so that sums over rows need no groups.
TEST(LaunchesOfAStepTest, OfAGptHaveALimit) {
  const auto gpt = [](model::Mode mode) {
    model::GptOptions o;
    o.n_layer = 2;
    o.n_head = 2;
    o.n_embd = 32;
    o.block_size = 32;
    o.vocab_size = 29;
    return model::Gpt(o, mode);
  };
  const std::uint64_t launches = LaunchesOfAStep(gpt, 4);
  EXPECT_LE(launches, 260u);
  EXPECT_LE(LaunchesOfAStep(gpt, 8), launches + 10) << "of more samples";
}

// A sample has 10 rows, less than a leaf, so that each sample is a group of rows.
TEST(LaunchesOfAStepTest, OfAnImageModelDoNotGrowWithItsSamples) {
  const auto vit = [](model::Mode mode) {
    model::VitOptions o;
    o.image_size = {12, 12};
    o.channels = 2;
    o.patch_size = 4;
    o.num_layers = 1;
    o.num_heads = 2;
    o.hidden_dim = 32;
    o.mlp_dim = 48;
    o.num_classes = 5;
    return model::Vit(o, mode);
  };
  const std::uint64_t launches = LaunchesOfAStep(vit, 20);
  EXPECT_LE(launches, 200u);
  EXPECT_LE(LaunchesOfAStep(vit, 40), launches + 10) << "of more samples";
}

}  // namespace
}  // namespace cuda_on_cpu
