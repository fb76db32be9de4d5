// Rules for gradients and parameters that hold for every optimizer: clipping by the norm of all
// gradients, and frozen parameters. The results are compared with float64, and every cut must give
// the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>

#include "acan/manager/graph_planner.h"
#include "acan/model/gradients.h"
#include "acan/model/presets.h"
#include "gradient_check.h"
#include "lowering_runner.h"
#include "reference.h"

namespace acan {
namespace {

// The head is tied to the embedding, so one gradient is a sum of two. Rows of 144 columns are cut
// within lane order, rows of 48 columns are not.
model::Graph SmallGpt(model::Mode mode) {
  model::GptOptions o;
  o.n_layer = 1;
  o.n_head = 3;
  o.n_embd = 144;
  o.block_size = 24;
  o.vocab_size = 83;
  o.dropout = 0;
  return model::Gpt(o, mode);
}

model::Graph SmallResnet(model::Mode mode) {
  model::ResnetOptions o;
  o.image_size = {8, 9};
  o.channels = 2;
  o.widths = {8, 16};
  o.blocks = {1, 1};
  o.stem = model::ResnetStem::kSmall;
  o.num_classes = 7;
  return model::Resnet(o, mode);
}

model::Graph Perceptron(model::Mode mode) {
  return model::Mlp({{200, 150, 7}, model::ActivationKind::kRelu}, mode);
}

class Job {
 public:
  static constexpr std::int64_t kSamples = 5;

  Job(model::Graph (*make)(model::Mode), const std::vector<std::string>& frozen) {
    const auto graph = [&](model::Mode mode) {
      model::Graph made = make(mode);
      model::Freeze(&made, frozen);
      return made;
    };
    graph_ =
        std::make_shared<const model::Graph>(model::WithGradients(graph(model::Mode::kTraining)));
    const auto evaluation = std::make_shared<const model::Graph>(graph(model::Mode::kEvaluation));
    model_ = std::make_unique<LoweredModel>(
        LoweredModel{LoweredGraph(graph_), LoweredGraph(evaluation)});
    training.batch = kSamples;
    training.seed = 7;
    training.optimizer = Optimizer::kMomentum;
    training.learning_rate = 0.5;
    training.momentum = 0.9;
    model::Random random(11);
    for (const model::Input& input : graph_->inputs()) {
      inputs_[input.name] = model::RandomValue(*graph_, input.value, kSamples, &random);
    }
    for (const double label : inputs_.at("labels").values) counted_ += label >= 0 ? 1 : 0;
  }

  const model::Graph& graph() const { return *graph_; }
  const LoweredModel& model() const { return *model_; }

  std::optional<ChosenCuts> Choose(std::uint64_t capacity_bytes,
                                   std::optional<std::uint64_t> size_bytes = {}) const {
    CutRequest request{
        .model = *model_, .training = training, .size_bytes = size_bytes, .batch_rows = {}};
    request.capacity_bytes = capacity_bytes;
    request.tuple_bytes = 1ull << 30;
    request.task_inputs = 4096;
    return ChooseCuts(request, nullptr);
  }
  // Computes the initial weights and `steps` steps.
  std::unique_ptr<LoweringRunner> Run(const GraphCuts& cuts, std::int64_t steps) const {
    auto runner = std::make_unique<LoweringRunner>(*model_, training, cuts);
    runner->Initialize();
    for (std::int64_t s = 0; s < steps; ++s) runner->Step(s, kSamples, inputs_, counted_);
    return runner;
  }

  // The first step's gradients by parameter, in float64.
  std::map<std::int32_t, model::Matrix> Gradients(LoweringRunner& runner) const {
    model::Reference reference(*graph_, {kSamples, training.seed, 0});
    for (const model::Input& input : graph_->inputs()) {
      reference.Set(input.value, inputs_.at(input.name));
    }
    for (std::int32_t p = 0; p < static_cast<std::int32_t>(graph_->parameters().size()); ++p) {
      const model::Parameter& parameter = graph_->parameter(p);
      model::Matrix matrix(parameter.rows, parameter.columns);
      const std::vector<float> values = runner.ValueOf(p, 0);
      std::copy(values.begin(), values.end(), matrix.values.begin());
      reference.Set(graph_->ValueOf(p), matrix);
    }
    reference.Run();
    std::map<std::int32_t, model::Matrix> gradients;
    for (const model::Gradient& gradient : graph_->gradients()) {
      gradients[graph_->value(gradient.of).index] = reference[gradient.value];
    }
    return gradients;
  }

  Training training;

 private:
  std::shared_ptr<const model::Graph> graph_;
  std::unique_ptr<LoweredModel> model_;
  LoweringRunner::Inputs inputs_;
  std::int64_t counted_ = 0;
};

double NormOf(const std::map<std::int32_t, model::Matrix>& gradients) {
  double squares = 0;
  for (const auto& [parameter, gradient] : gradients) {
    for (const double element : gradient.values) squares += element * element;
  }
  return std::sqrt(squares);
}

struct Clipped {
  std::string name;
  model::Graph (*make)(model::Mode);
  std::vector<std::string> frozen = {};
};
void PrintTo(const Clipped& clipped, std::ostream* out) {
  *out << clipped.name;
}

class ClippingTest : public testing::TestWithParam<Clipped> {};

TEST_P(ClippingTest, ScalesGradientsByTheNormOfAllOfThem) {
  Job job(GetParam().make, GetParam().frozen);
  const auto start = job.Run(job.Choose(1ull << 30)->cuts, 0);
  const std::map<std::int32_t, model::Matrix> gradients = job.Gradients(*start);
  const double norm = NormOf(gradients);
  ASSERT_GT(norm, 0.01);
  for (const double limit : {0.01, 1e6}) {
    job.training.clip_norm = limit;
    const auto runner = job.Run(job.Choose(1ull << 30)->cuts, 1);
    ASSERT_EQ(runner->squares().size(), 1u);
    EXPECT_NEAR(std::sqrt(static_cast<double>(runner->squares()[0])), norm, 1e-5 * norm);
    const double factor = std::min(1.0, limit / (norm + 1e-6));
    for (const auto& [parameter, expected] : gradients) {
      // In the first step the momentum is the gradient.
      const std::vector<float> found = runner->ValueOf(parameter, 1, ParameterState::kFirstMoment);
      double largest = 0, worst = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        const double wanted = factor * expected.values[i];
        largest = std::max(largest, std::fabs(wanted));
        worst = std::max(worst, std::fabs(wanted - static_cast<double>(found[i])));
      }
      EXPECT_LE(worst, 2e-5 * largest + 1e-9) << job.graph().parameter(parameter).name;
    }
  }
}

TEST_P(ClippingTest, EveryCutTrainsTheSameBits) {
  for (const std::int64_t block : {16, 64, 128}) {
    Job job(GetParam().make, GetParam().frozen);
    job.training.clip_norm = 0.5;
    job.training.block = block;
    std::string hash;
    std::vector<float> squares;
    std::set<std::size_t> tasks_run;
    const auto tile = static_cast<std::uint64_t>(4 * block * block);
    for (const std::uint64_t kib : {1 << 20, 1024, 256}) {
      for (const std::uint64_t size_bytes : {std::uint64_t{1} << 30, 4 * tile, tile}) {
        const auto chosen = job.Choose(kib << 10, size_bytes);
        if (!chosen) continue;
        const auto runner = job.Run(chosen->cuts, 2);
        EXPECT_LE(runner->largest_need_bytes(), kib << 10);
        tasks_run.insert(runner->tasks_run());
        if (hash.empty()) {
          hash = runner->Hash(2);
          squares = runner->squares();
        }
        EXPECT_EQ(runner->Hash(2), hash) << Summary(*chosen, Job::kSamples);
        EXPECT_EQ(runner->squares(), squares) << Summary(*chosen, Job::kSamples);
      }
    }
    EXPECT_GE(tasks_run.size(), 2u) << "block " << block;
  }
}

TEST_P(ClippingTest, TheEstimateIsOfTheTasksThatAreMade) {
  Job job(GetParam().make, GetParam().frozen);
  job.training.clip_norm = 0.5;
  const auto chosen = job.Choose(512 << 10);
  ASSERT_TRUE(chosen);
  const auto first = job.Run(chosen->cuts, 0), second = job.Run(chosen->cuts, 1);
  EXPECT_EQ(static_cast<std::int64_t>(second->tasks_run() - first->tasks_run()),
            chosen->cost.tasks);
}

// No task of a step puts these tiles: they are made once and belong to all versions.
TEST(FrozenTest, HasOneTupleForAllVersionsAndNoState) {
  Job job(SmallGpt, {"transformer.wpe.*", "transformer.h.0.ln_1.*"});
  const auto chosen = job.Choose(512 << 10);
  ASSERT_TRUE(chosen);
  const auto runner = job.Run(chosen->cuts, 2);
  std::map<std::int64_t, std::set<ParameterState>> states;
  std::map<std::int64_t, std::set<tuplespace::Key>> keys;
  const GraphTasks tasks(job.model(), job.training, chosen->cuts);
  for (const std::int64_t version : {0, 2}) {
    for (const TileCell& tile : tasks.Tiles("job", version)) {
      const auto p = static_cast<std::int64_t>(tile.matrix.parameter);
      const bool frozen = job.graph().parameter(static_cast<std::int32_t>(p)).frozen;
      EXPECT_EQ(tile.frozen, frozen);
      EXPECT_EQ(keys[p].insert(tile.key).second, version == 0 || !frozen) << tile.key.ToString();
      states[p].insert(tile.matrix.state);
    }
  }
  for (std::int32_t p = 0; p < static_cast<std::int32_t>(job.graph().parameters().size()); ++p) {
    const model::Parameter& parameter = job.graph().parameter(p);
    EXPECT_EQ(states[p].size(), parameter.frozen ? 1u : 2u) << parameter.name;
    EXPECT_EQ(runner->ValueOf(p, 0) == runner->ValueOf(p, 2), parameter.frozen) << parameter.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ClippingTest,
                         testing::Values(Clipped{"gpt", SmallGpt},
                                         Clipped{"gpt_without_embedding",
                                                 SmallGpt,
                                                 {"transformer.wte.*", "transformer.h.0.ln_1.*"}},
                                         Clipped{"resnet", SmallResnet},
                                         Clipped{"perceptron", Perceptron}),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace acan
