// Graphs as tasks: the loss and every gradient are compared with the float64 interpreter, and every
// cut must give the same bits.
#include <set>

#include "forwarding_device.h"
#include "lowering_fixture.h"
#include "reference.h"

namespace acan {
namespace {

TEST_P(LoweringTest, LossAndGradientsAreThoseOfTheDefinition) {
  const auto chosen = Choose(1ull << 30, 1);
  ASSERT_TRUE(chosen);
  LoweringRunner runner(model_, training_, chosen->cuts);
  runner.Initialize();
  runner.Step(0, kSamples, inputs_, counted_);

  model::Reference reference(*training_graph_, {kSamples, training_.seed, 0});
  for (const model::Input& input : training_graph_->inputs()) {
    reference.Set(input.value, inputs_.at(input.name));
  }
  const auto parameters = static_cast<std::int32_t>(training_graph_->parameters().size());
  for (std::int32_t p = 0; p < parameters; ++p) {
    const model::Parameter& parameter = training_graph_->parameter(p);
    model::Matrix matrix(parameter.rows, parameter.columns);
    const std::vector<float> values = runner.ValueOf(p, 0);
    std::copy(values.begin(), values.end(), matrix.values.begin());
    reference.Set(training_graph_->ValueOf(p), matrix);
  }
  reference.Run();
  const double loss = static_cast<double>(runner.loss()[0]) / static_cast<double>(counted_);
  EXPECT_NEAR(loss, reference.Loss(), 2e-6 * reference.Loss());
  for (const model::Gradient& gradient : training_graph_->gradients()) {
    const std::int32_t p = training_graph_->value(gradient.of).index;
    const model::Matrix& expected = reference[gradient.value];
    // In the first step the momentum is the gradient.
    const std::vector<float> found = runner.ValueOf(p, 1, ParameterState::kFirstMoment);
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      largest = std::max(largest, std::fabs(expected.values[i]));
      worst = std::max(worst, std::fabs(expected.values[i] - static_cast<double>(found[i])));
    }
    EXPECT_LE(worst, 2e-5 * largest + 1e-9) << training_graph_->parameter(p).name;
  }
  for (const model::Assignment& assignment : training_graph_->assignments()) {
    const model::Matrix& expected = reference[assignment.value];
    const std::vector<float> found = runner.ValueOf(assignment.parameter, 1);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(found[i]), expected.values[i], 1e-5)
          << training_graph_->parameter(assignment.parameter).name;
    }
  }
}

TEST_P(LoweringTest, EveryCutTrainsTheSameBits) {
  std::string hash;
  std::vector<float> loss, test_loss;
  std::set<std::size_t> tasks_run;
  for (std::uint64_t kib = 1 << 20; kib >= GetParam().least_kib;
       kib = kib > 1024 ? 1024 : kib / 2) {
    const std::uint64_t capacity = kib << 10;
    for (const int workers : {1, 3}) {
      const auto chosen = Choose(capacity, workers);
      ASSERT_TRUE(chosen) << capacity;
      LoweringRunner runner(model_, training_, chosen->cuts);
      runner.Initialize();
      runner.Step(0, kSamples, inputs_, counted_);
      runner.Step(1, kSamples, inputs_, counted_);
      EXPECT_LE(runner.largest_need_bytes(), capacity);
      const std::vector<float> first_loss = runner.loss();
      runner.Evaluate(2, kSamples, inputs_, counted_);
      tasks_run.insert(runner.tasks_run());
      const std::string found = runner.Hash(2);
      if (hash.empty()) {
        hash = found;
        loss = first_loss;
        test_loss = runner.loss();
      }
      EXPECT_EQ(found, hash) << Summary(*chosen, kSamples);
      EXPECT_EQ(first_loss, loss) << Summary(*chosen, kSamples);
      EXPECT_EQ(runner.loss(), test_loss) << Summary(*chosen, kSamples);
    }
  }
  EXPECT_GT(tasks_run.size(), 3u);
  EXPECT_GT(*tasks_run.rbegin(), 3 * *tasks_run.begin());
}

// Various amounts above the smallest memory give segments of all lengths.
TEST_P(LoweringTest, EverySegmentTrainsTheSameBits) {
  std::uint64_t smallest = 0;
  ASSERT_FALSE(Choose(1000, 1, &smallest));
  std::string hash;
  for (const double more : {1e6, 1.0, 1.03, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.2, 3.0, 4.0}) {
    const auto capacity = static_cast<std::uint64_t>(static_cast<double>(smallest) * more);
    const auto chosen = Choose(capacity, 1);
    ASSERT_TRUE(chosen) << capacity << " of " << smallest;
    LoweringRunner runner(model_, training_, chosen->cuts);
    runner.Initialize();
    runner.Step(0, kSamples, inputs_, counted_);
    const std::string found = runner.Hash(1);
    if (hash.empty()) hash = found;
    EXPECT_EQ(found, hash) << capacity << ": " << Summary(*chosen, kSamples);
  }
}

// The refusal names the exact number of bytes with which training starts.
TEST_P(LoweringTest, NamesTheSmallestMemory) {
  for (const int workers : {1, 2}) {
    std::uint64_t smallest = 0;
    ASSERT_FALSE(Choose(1000, workers, &smallest));
    const auto chosen = Choose(smallest, workers);
    ASSERT_TRUE(chosen) << smallest;
    EXPECT_FALSE(Choose(smallest - 1, workers)) << smallest;
    EXPECT_LE(smallest, GetParam().least_kib << 10);
    LoweringRunner runner(model_, training_, chosen->cuts);
    runner.Initialize();
    runner.Step(0, kSamples, inputs_, counted_);
    runner.Evaluate(1, kSamples, inputs_, counted_);
    EXPECT_LE(runner.largest_need_bytes(), smallest);
    EXPECT_LE(runner.largest_need_bytes(), chosen->cost.largest_need_bytes);
    // More memory must always suffice, too.
    for (std::uint64_t sixteenths = 17; sixteenths < 80; sixteenths += 9) {
      EXPECT_TRUE(Choose(smallest * sixteenths / 16, workers)) << smallest << " " << sixteenths;
    }
  }
}

// The plan's estimate must match the tasks that it makes.
TEST_P(LoweringTest, TheEstimateIsOfTheTasksThatAreReallyMade) {
  for (const std::uint64_t kib : {GetParam().least_kib, 4 * GetParam().least_kib}) {
    const auto chosen = Choose(kib << 10, 2);
    ASSERT_TRUE(chosen) << kib;
    Pass pass;
    pass.job = "job";
    pass.rows = kSamples;
    const GraphTasks graph_tasks(model_, training_, chosen->cuts);
    const std::vector<PlannedTask> tasks = graph_tasks.Tasks(pass);
    std::uint64_t moved = 0;
    for (const PlannedTask& task : tasks) {
      EXPECT_LE(NeedBytes(task.task), chosen->cost.largest_need_bytes);
      for (const Piece& piece : task.task.pieces) {
        moved += BufferSpec{piece.rows, piece.cols}.bytes();
      }
      for (const Output& output : task.task.outputs) moved += output.view.bytes();
    }
    EXPECT_EQ(static_cast<std::int64_t>(tasks.size()), chosen->cost.tasks) << kib;
    EXPECT_EQ(moved, chosen->cost.moved_bytes) << kib;
  }
}

// Each node is a segment, in boxes of `samples` samples where the node allows it.
TEST_P(LoweringTest, AnyNumberOfSamplesTrainsTheSameBits) {
  const auto chosen = Choose(1ull << 30, 1);
  ASSERT_TRUE(chosen);
  std::string hash;
  for (const std::int64_t samples : {8, 4, 3, 2, 1}) {
    GraphCuts cuts = chosen->cuts;
    cuts.training = Apart(model_.training, samples, cuts.block);
    cuts.evaluation = Apart(model_.evaluation, samples, cuts.block);
    LoweringRunner runner(model_, training_, cuts);
    runner.Initialize();
    runner.Step(0, kSamples, inputs_, counted_);
    runner.Step(1, kSamples, inputs_, counted_);
    if (hash.empty()) hash = runner.Hash(2);
    EXPECT_EQ(runner.Hash(2), hash) << samples;
  }
  // The same with boxes that the planner chooses.
  for (const std::int64_t samples : {3, 2, 1}) {
    const auto small = Choose(1ull << 30, 2, nullptr, samples);
    ASSERT_TRUE(small);
    LoweringRunner runner(model_, training_, small->cuts);
    runner.Initialize();
    runner.Step(0, kSamples, inputs_, counted_);
    runner.Step(1, kSamples, inputs_, counted_);
    EXPECT_EQ(runner.Hash(2), hash) << samples;
  }
}

// A box that is not a node of the summation tree makes a part for each of its nodes.
TEST_P(LoweringTest, UnevenBoxesTrainTheSameBits) {
  const auto chosen = Choose(1ull << 30, 1);
  ASSERT_TRUE(chosen);
  std::string hash;
  std::vector<float> loss;
  int tried = 0;
  for (const std::int64_t samples : {8, 3, 4}) {
    GraphCuts cuts = chosen->cuts;
    for (auto* segments : {&cuts.training, &cuts.evaluation}) {
      for (Segment& segment : *segments) segment.rows = {samples, 0};
    }
    if (samples < kSamples && !IsPossible(cuts)) continue;
    ++tried;
    LoweringRunner runner(model_, training_, cuts);
    runner.Initialize();
    runner.Step(0, kSamples, inputs_, counted_);
    runner.Step(1, kSamples, inputs_, counted_);
    if (hash.empty()) {
      hash = runner.Hash(2);
      loss = runner.loss();
    }
    EXPECT_EQ(runner.Hash(2), hash) << samples;
    EXPECT_EQ(runner.loss(), loss) << samples;
  }
  const bool is_decoder = GetParam().name.starts_with("gpt") || GetParam().name == "llama";
  EXPECT_GE(tried, is_decoder ? 2 : 1);
}

// Counts the gradients that the CPU computes in one call.
class CountingDevice : public test::ForwardingDevice {
 public:
  struct Counts {
    int convolutions = 0;
    int groups = 0;
  };
  explicit CountingDevice(Counts& counts)
      : ForwardingDevice(LoweringRunner::MakeCpu()), counts_(counts) {}
  bool GemmGroups(Precision precision, std::int64_t block, std::int64_t group_rows, const Matrix& a,
                  const Matrix& b, const Matrix& c) override {
    const bool done = inner_->GemmGroups(precision, block, group_rows, a, b, c);
    counts_.groups += done ? 1 : 0;
    return done;
  }
  bool ConvolveWeights(Precision precision, std::int64_t block, std::int64_t group_rows,
                       const KernelArgs& unfold, const Matrix& dy, const Matrix& c) override {
    const bool done = inner_->ConvolveWeights(precision, block, group_rows, unfold, dy, c);
    counts_.convolutions += done ? 1 : 0;
    return done;
  }

 private:
  Counts& counts_;
};

// RunCalls recognizes exactly the sequences of calls that plans make.
TEST_P(LoweringTest, GradientsOverGroupsOfRowsAreOneCall) {
  const auto chosen = Choose(1ull << 30, 1);
  ASSERT_TRUE(chosen);
  CountingDevice::Counts counts;
  LoweringRunner runner(model_, training_, chosen->cuts, std::make_unique<CountingDevice>(counts));
  runner.Initialize();
  runner.Step(0, kSamples, inputs_, counted_);
  LoweringRunner alone(model_, training_, chosen->cuts);
  alone.Initialize();
  alone.Step(0, kSamples, inputs_, counted_);
  EXPECT_EQ(runner.Hash(1), alone.Hash(1));
  const std::string& name = GetParam().name;
  const bool has_convolutions = name.starts_with("resnet") || name == "convnext";
  EXPECT_EQ(counts.convolutions > 0, has_convolutions);
  // Its samples have 21 positions, so a group has 42 rows.
  if (name == "vit") {
    EXPECT_GT(counts.groups, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LoweringTest, testing::ValuesIn(kSmallModels),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace acan
