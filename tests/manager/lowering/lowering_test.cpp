// Graphs as tasks: the loss and every gradient against the float64 interpreter, and the same bits
// under every cut.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

#include "acan/manager/graph_planner.h"
#include "acan/model/gradients.h"
#include "acan/model/presets.h"
#include "forwarding_device.h"
#include "gradient_check.h"
#include "lowering_runner.h"
#include "reference.h"

namespace acan {
namespace {

struct Model {
  std::string name;
  std::uint64_t least_kib;  // with which a handler can still take part
  std::function<model::Graph(model::Mode)> make;
};
void PrintTo(const Model& model, std::ostream* out) {
  *out << model.name;
}

model::GptOptions Gpt(std::int64_t length, float dropout) {
  model::GptOptions o;
  o.n_layer = 2;
  o.n_head = 3;
  o.n_embd = 48;
  o.block_size = 160;
  o.sequence_length = length;
  o.vocab_size = 83;
  o.dropout = dropout;
  return o;
}

const std::vector<Model> kModels = {
    {"perceptron", 80,
     [](model::Mode mode) {
       return model::Mlp({.layers = {70, 130, 90, 10},
                          .activation = model::ActivationKind::kTanh,
                          .loss = model::LossKind::kCrossEntropy},
                         mode);
     }},
    {"gpt", 128, [](model::Mode mode) { return model::Gpt(Gpt(40, 0), mode); }},
    // Neither the table nor the outputs of a sample fit into a small handler.
    {"gpt_of_many_words", 128,
     [](model::Mode mode) {
       model::GptOptions o;
       o.n_layer = 1;
       o.n_head = 2;
       o.n_embd = 32;
       o.block_size = o.sequence_length = 24;
       o.vocab_size = 1500;
       o.dropout = 0;
       return model::Gpt(o, mode);
     }},
    {"gpt_long_with_dropout", 256,
     [](model::Mode mode) { return model::Gpt(Gpt(150, 0.1f), mode); }},
    {"llama", 128,
     [](model::Mode mode) {
       model::LlamaOptions o;
       o.vocab_size = 83;
       o.hidden_size = 64;
       o.intermediate_size = 96;
       o.num_hidden_layers = 2;
       o.num_attention_heads = 4;
       o.num_key_value_heads = 2;
       o.max_position_embeddings = 72;
       return model::Llama(o, mode);
     }},
    {"bert", 256,
     [](model::Mode mode) {
       model::BertOptions o;
       o.task = model::BertTask::kClassification;
       o.vocab_size = 83;
       o.hidden_size = 48;
       o.num_hidden_layers = 2;
       o.num_attention_heads = 3;
       o.intermediate_size = 64;
       o.max_position_embeddings = 80;
       o.sequence_length = 70;
       o.num_labels = 5;
       return model::Bert(o, mode);
     }},
    {"vit", 128,
     [](model::Mode mode) {
       model::VitOptions o;
       o.image_size = {20, 16};
       o.channels = 2;
       o.patch_size = 4;
       o.num_layers = 2;
       o.num_heads = 2;
       o.hidden_dim = 32;
       o.mlp_dim = 48;
       o.dropout = 0.1f;
       o.num_classes = 7;
       return model::Vit(o, mode);
     }},
    {"resnet_with_group_norm", 64,
     [](model::Mode mode) {
       model::ResnetOptions o;
       o.image_size = {14, 13};
       o.channels = 2;
       o.widths = {8, 16};
       o.blocks = {1, 1};
       o.stem = model::ResnetStem::kImageNet;
       o.norm = model::NormKind::kGroup;
       o.norm_groups = 4;
       o.num_classes = 7;
       return model::Resnet(o, mode);
     }},
    // Groups of an odd number of channels, over more rows than a leaf has.
    {"resnet_with_odd_groups", 128,
     [](model::Mode mode) {
       model::ResnetOptions o;
       o.image_size = {8, 19};
       o.channels = 3;
       o.widths = {7, 8};
       o.blocks = {1, 1};
       o.stem = model::ResnetStem::kSmall;
       o.norm = model::NormKind::kGroup;
       o.norm_groups = 1;
       o.num_classes = 5;
       return model::Resnet(o, mode);
     }},
    {"resnet_with_batch_norm", 64,
     [](model::Mode mode) {
       model::ResnetOptions o;
       o.image_size = {8, 9};
       o.channels = 2;
       o.widths = {8, 16};
       o.blocks = {1, 1};
       o.stem = model::ResnetStem::kSmall;
       o.num_classes = 7;
       return model::Resnet(o, mode);
     }},
    // An unfolded image does not fit into a small handler.
    {"resnet_of_larger_images", 256,
     [](model::Mode mode) {
       model::ResnetOptions o;
       o.image_size = {20, 18};
       o.channels = 2;
       o.widths = {16, 32};
       o.blocks = {1, 1};
       o.stem = model::ResnetStem::kSmall;
       o.num_classes = 7;
       return model::Resnet(o, mode);
     }},
    // Its last stage has 25 positions, so two samples are a group there, and one is before.
    {"resnet_of_small_images", 64,
     [](model::Mode mode) {
       model::ResnetOptions o;
       o.image_size = {9, 9};
       o.widths = {8, 16};
       o.blocks = {1, 1};
       o.stem = model::ResnetStem::kSmall;
       o.num_classes = 7;
       return model::Resnet(o, mode);
     }},
    {"convnext", 64,
     [](model::Mode mode) {
       model::ConvnextOptions o;
       o.image_size = {16, 24};
       o.channels = 2;
       o.patch_size = 2;
       o.widths = {8, 16};
       o.blocks = {1, 2};
       o.layer_scale = 0.5f;
       o.stochastic_depth_prob = 0.3f;
       o.num_classes = 7;
       return model::Convnext(o, mode);
     }},
};

class LoweringTest : public testing::TestWithParam<Model> {
 protected:
  static constexpr std::int64_t kSamples = 5;

  LoweringTest()
      : training_graph_(std::make_shared<const model::Graph>(
            model::WithGradients(GetParam().make(model::Mode::kTraining)))),
        evaluation_graph_(
            std::make_shared<const model::Graph>(GetParam().make(model::Mode::kEvaluation))),
        model_(LowerGraphs(training_graph_, evaluation_graph_)) {
    training_.batch = kSamples;
    training_.seed = 7;
    training_.optimizer = Optimizer::kMomentum;
    training_.learning_rate = 0.5;
    training_.momentum = 0.9;
    model::Random random(11);
    for (const model::Input& input : training_graph_->inputs()) {
      inputs_[input.name] = model::RandomValue(*training_graph_, input.value, kSamples, &random);
    }
    counted_ = 0;
    for (const double label : inputs_.at("labels").values) counted_ += label >= 0 ? 1 : 0;
  }

  std::optional<ChosenCuts> Choose(std::uint64_t capacity, int workers,
                                   std::uint64_t* smallest = nullptr,
                                   std::optional<std::int64_t> batch_rows = {}) {
    CutRequest request{.model = model_, .training = training_, .size_bytes = {}, .batch_rows = {}};
    request.capacity_bytes = capacity;
    request.batch_rows = batch_rows;
    request.workers = workers;
    request.tuple_bytes = 1ull << 30;
    request.task_inputs = 4096;
    return ChooseCuts(request, smallest);
  }

  // A segment for each node. Sums are added over the rows of the values of which operators say so:
  // the first one that has rows.
  static std::vector<Segment> Apart(const LoweredGraph& graph, std::int64_t samples,
                                    std::int64_t block) {
    std::vector<Segment> segments;
    for (int id = 0; id < static_cast<int>(graph.nodes().size()); ++id) {
      RowCut rows{samples, 0};
      for (const int operand : graph.node(id).operands) {
        if (operand < 0 || !graph.value(operand).IsOfSamples() || !ReducesRows(graph, id)) continue;
        if (!RowOrder(block, graph.value(operand).rows).Allows(rows)) rows.samples = 64;
        break;
      }
      segments.push_back({{id, id + 1}, rows});
    }
    return segments;
  }

  // The forward pass is a segment, and the backward pass is another, but for nodes that wait for
  // sums over all rows.
  static std::vector<Segment> PassesApart(const LoweredGraph& graph, std::int64_t samples) {
    const auto nodes = static_cast<std::int64_t>(graph.nodes().size());
    std::vector<Segment> segments{{{0, 0}, {samples, 0}}};
    bool is_backward = false;
    std::set<int> sums;
    for (std::int64_t id = 0; id < nodes; ++id) {
      const LoweredNode& node = graph.node(static_cast<int>(id));
      const bool waits = std::any_of(node.operands.begin(), node.operands.end(),
                                     [&](int operand) { return sums.contains(operand); });
      if ((node.is_backward && !is_backward) || waits) {
        segments.push_back({{id, id}, {samples, 0}});
        sums.clear();
      }
      is_backward = is_backward || node.is_backward;
      segments.back().nodes.end = id + 1;
      for (const int result : node.results) {
        if (graph.value(result).kind == ValueKind::kSum) sums.insert(result);
      }
    }
    return segments;
  }

  // Whether all sums over rows can be made of the boxes.
  bool IsPossible(const GraphCuts& cuts) const {
    for (const auto& [graph, segments] : {std::pair(&model_.training, &cuts.training),
                                          std::pair(&model_.evaluation, &cuts.evaluation)}) {
      for (const LoweredValue& value : graph->values()) {
        if (!value.IsOfSamples()) continue;
        if (!RowOrder(cuts.block, value.rows).Allows(segments->front().rows)) return false;
      }
    }
    return true;
  }

  std::shared_ptr<const model::Graph> training_graph_, evaluation_graph_;
  LoweredModel model_;
  Training training_;
  LoweringRunner::Inputs inputs_;
  std::int64_t counted_ = 0;
};

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
    // The momentum of the first step is the gradient.
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

// With somewhat more memory than the least: segments of all lengths.
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

// The refusal names the memory with which training starts, to the byte.
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
    // More memory is never too little.
    for (std::uint64_t sixteenths = 17; sixteenths < 80; sixteenths += 9) {
      EXPECT_TRUE(Choose(smallest * sixteenths / 16, workers)) << smallest << " " << sixteenths;
    }
  }
}

// What a plan says of the tasks that it makes.
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

// Every node by itself, in boxes of so many samples if it allows them.
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
  // And where the planner says what they allow.
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

// Boxes that are no nodes of the tree of sums make a part for each node that they have.
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

// Counts the gradients that a CPU computes in one call.
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

// RunCalls looks for the very calls that plans make.
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
  const bool has_convolutions = name.starts_with("resnet");
  EXPECT_EQ(counts.convolutions > 0, has_convolutions);
  // Its samples have 21 positions, so that a group has 42 rows.
  if (name == "vit") {
    EXPECT_GT(counts.groups, 0);
  }
}

// What lies in the space between the tasks of a step, without weights and their gradients.
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

// What the backward pass computes again is not kept, and has the bits of what would have been.
TEST_P(LoweringTest, ActivationsAreComputedAgainToTheSameBits) {
  const std::uint64_t capacity = 4 * GetParam().least_kib << 10;
  std::string hash;
  std::vector<std::uint64_t> bytes;
  for (const Recompute recompute :
       {Recompute::kNothing, Recompute::kElements, Recompute::kBranches}) {
    CutRequest request{.model = model_, .training = training_, .size_bytes = {}, .batch_rows = {}};
    request.recompute = recompute;
    request.capacity_bytes = capacity;
    request.workers = 2;
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
    // With the forward pass in one task for each box, and each gradient with what it computes
    // again.
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

// Where the estimate of a step's time gains by it, and the same graph as ever where it does not.
TEST_P(LoweringTest, TheEstimateSaysWhetherToComputeAgain) {
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

INSTANTIATE_TEST_SUITE_P(Models, LoweringTest, testing::ValuesIn(kModels),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace acan
