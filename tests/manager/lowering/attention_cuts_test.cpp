// Attention that is cut by queries and by nodes of the keys: every cut gives the same bits, squares
// hidden by a causal mask have no task, and the planner cuts where memory or workers need it.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "acan/manager/graph_planner.h"
#include "acan/manager/task_cost.h"
#include "acan/model/gradients.h"
#include "acan/model/presets.h"
#include "gradient_check.h"
#include "lowering_runner.h"

namespace acan {
namespace {

struct LongModel {
  std::string name;
  std::int64_t samples;
  std::function<model::Graph(model::Mode)> make;
};
void PrintTo(const LongModel& model, std::ostream* out) {
  *out << model.name;
}

model::GptOptions Gpt(std::int64_t length, float dropout) {
  model::GptOptions o;
  o.n_layer = 1;
  o.n_head = 3;
  o.n_embd = 48;
  o.block_size = length + 100;  // more than a sample has
  o.sequence_length = length;
  o.vocab_size = 29;
  o.dropout = dropout;
  return o;
}

const std::vector<LongModel> kModels = {
    {"gpt_of_1000_positions", 1,
     [](model::Mode mode) { return model::Gpt(Gpt(1000, 0.1f), mode); }},
    {"gpt_of_320_positions", 2, [](model::Mode mode) { return model::Gpt(Gpt(320, 0), mode); }},
    {"llama", 2,
     [](model::Mode mode) {
       model::LlamaOptions o;
       o.vocab_size = 29;
       o.hidden_size = 64;
       o.intermediate_size = 96;
       o.num_hidden_layers = 1;
       o.num_attention_heads = 4;
       o.num_key_value_heads = 2;
       o.max_position_embeddings = 450;
       return model::Llama(o, mode);
     }},
    {"bert_with_lengths", 3,
     [](model::Mode mode) {
       model::BertOptions o;
       o.task = model::BertTask::kClassification;
       o.vocab_size = 29;
       o.hidden_size = 48;
       o.num_hidden_layers = 1;
       o.num_attention_heads = 3;
       o.intermediate_size = 64;
       o.max_position_embeddings = 260;
       o.sequence_length = 260;
       o.num_labels = 5;
       return model::Bert(o, mode);
     }},
};

class AttentionCutsTest : public testing::TestWithParam<LongModel> {
 protected:
  AttentionCutsTest()
      : training_graph_(std::make_shared<const model::Graph>(
            model::WithGradients(GetParam().make(model::Mode::kTraining)))),
        evaluation_graph_(
            std::make_shared<const model::Graph>(GetParam().make(model::Mode::kEvaluation))),
        model_{LoweredGraph(training_graph_), LoweredGraph(evaluation_graph_)} {
    training_.batch = GetParam().samples;
    training_.seed = 7;
    training_.optimizer = Optimizer::kMomentum;
    training_.learning_rate = 0.5;
    training_.momentum = 0.9;
    model::Random random(11);
    for (const model::Input& input : training_graph_->inputs()) {
      inputs_[input.name] =
          model::RandomValue(*training_graph_, input.value, training_.batch, &random);
    }
    for (const double label : inputs_.at("labels").values) counted_ += label >= 0 ? 1 : 0;
  }

  CutRequest Request(std::uint64_t capacity, int workers) const {
    CutRequest request{.model = model_, .training = training_, .size_bytes = {}, .batch_rows = {}};
    request.capacity_bytes = capacity;
    request.speed.workers = workers;
    request.tuple_bytes = 1ull << 30;
    request.task_inputs = 4096;
    return request;
  }

  // Returns the hash of the weights after a step, and the loss of an evaluation.
  std::pair<std::string, std::vector<float>> Train(const GraphCuts& cuts,
                                                   std::uint64_t* most = nullptr) {
    LoweringRunner runner(model_, training_, cuts);
    runner.Initialize();
    runner.Step(0, training_.batch, inputs_, counted_);
    const std::string hash = runner.Hash(1);
    runner.Evaluate(1, training_.batch, inputs_, counted_);
    if (most != nullptr) *most = runner.largest_need_bytes();
    return {hash, runner.loss()};
  }

  static bool IsAttention(const LoweredGraph& graph, int id) {
    const model::Operator& op = graph.node(id).node->op;
    return std::holds_alternative<model::Attention>(op) || IsGradient(graph, id);
  }
  static bool IsGradient(const LoweredGraph& graph, int id) {
    return std::holds_alternative<model::AttentionGradient>(graph.node(id).node->op);
  }

  // A segment for each node; attention is cut into squares, or forward only by queries (keys = 0).
  std::vector<Segment> Apart(const LoweredGraph& graph, std::int64_t queries, std::int64_t keys,
                             int parts) const {
    std::vector<Segment> segments;
    for (int id = 0; id < static_cast<int>(graph.nodes().size()); ++id) {
      Segment segment{{id, id + 1}, {training_.batch, 0}};
      if (IsAttention(graph, id)) {
        segment.rows = {1, queries};
        segment.key_span = IsGradient(graph, id) && keys == 0 ? queries : keys;
        segment.in_phases = segment.key_span > 0;
        segment.column_parts = parts;
      }
      segments.push_back(segment);
    }
    return segments;
  }

  void ExpectTheEstimateToHold(const CutRequest& request, const GraphCuts& cuts) {
    const CutCost cost = CostOf(request, cuts);
    Pass pass;
    pass.job = "job";
    pass.rows = training_.batch;
    std::uint64_t moved = 0, largest = 0;
    const std::vector<PlannedTask> tasks = GraphTasks(model_, training_, cuts).Tasks(pass);
    for (const PlannedTask& task : tasks) {
      moved += MovedBytes(task.task);
      largest = std::max(largest, NeedBytes(task.task));
    }
    EXPECT_EQ(static_cast<std::int64_t>(tasks.size()), cost.tasks);
    EXPECT_EQ(moved, cost.moved_bytes);
    EXPECT_EQ(largest, cost.largest_need_bytes);
  }

  std::shared_ptr<const model::Graph> training_graph_, evaluation_graph_;
  LoweredModel model_;
  Training training_;
  LoweringRunner::Inputs inputs_;
  std::int64_t counted_ = 0;
};

TEST_P(AttentionCutsTest, EverySquareGivesTheSameBits) {
  for (const std::int64_t block : {64, 32, 128}) {
    training_.block = block;
    const auto chosen = ChooseCuts(Request(1ull << 30, 1), nullptr);
    ASSERT_TRUE(chosen);
    const auto expected = Train(chosen->cuts);
    const int heads = static_cast<int>(ColumnUnits(model_.evaluation, [&] {
      int id = 0;
      while (!IsAttention(model_.evaluation, id)) ++id;
      return id;
    }()));
    for (const std::int64_t queries : {64, 128, 256, 512}) {
      for (const std::int64_t keys : {0, 64, 128, 256, 1024}) {
        GraphCuts cuts = chosen->cuts;
        const int parts = keys == queries ? heads : 1;
        cuts.training = Apart(model_.training, queries, keys, parts);
        cuts.evaluation = Apart(model_.evaluation, queries, keys, parts);
        EXPECT_EQ(Train(cuts), expected) << block << ": " << queries << " x " << keys;
        ExpectTheEstimateToHold(Request(1ull << 30, 1), cuts);
        if (block != 64) break;
      }
    }
  }
}

// With little memory, a task that adds parts reads only few of them.
TEST_P(AttentionCutsTest, PartsAreAddedInSeveralTasks) {
  const auto chosen = ChooseCuts(Request(1ull << 30, 1), nullptr);
  ASSERT_TRUE(chosen);
  GraphCuts cuts = chosen->cuts;
  cuts.training = Apart(model_.training, 64, 64, 1);
  cuts.evaluation = Apart(model_.evaluation, 64, 64, 1);
  const auto expected = Train(cuts);
  cuts.task_bytes = 100 << 10;
  EXPECT_EQ(Train(cuts), expected);
  ExpectTheEstimateToHold(Request(1ull << 30, 1), cuts);
}

TEST_P(AttentionCutsTest, EveryMemoryTrainsTheSameBits) {
  std::uint64_t smallest = 0;
  ASSERT_FALSE(ChooseCuts(Request(1000, 1), &smallest));
  std::pair<std::string, std::vector<float>> expected;
  bool has_squares = false;
  for (const double more : {1e6, 64.0, 16.0, 8.0, 5.0, 4.0, 3.0, 2.5, 2.0, 1.5, 1.3, 1.1, 1.0}) {
    const auto capacity = static_cast<std::uint64_t>(more * static_cast<double>(smallest));
    for (const int workers : {1, 5}) {
      const CutRequest request = Request(capacity, workers);
      const auto chosen = ChooseCuts(request, nullptr);
      ASSERT_TRUE(chosen) << capacity;
      std::uint64_t most = 0;
      const auto found = Train(chosen->cuts, &most);
      EXPECT_LE(most, capacity);
      if (expected.first.empty()) expected = found;
      EXPECT_EQ(found, expected) << capacity << ": " << Summary(*chosen, training_.batch);
      ExpectTheEstimateToHold(request, chosen->cuts);
      for (const Segment& segment : chosen->cuts.training) {
        has_squares = has_squares || segment.key_span > 0;
      }
    }
  }
  EXPECT_TRUE(has_squares);
}

INSTANTIATE_TEST_SUITE_P(Models, AttentionCutsTest, testing::ValuesIn(kModels),
                         [](const auto& of) { return of.param.name; });

// With one sample, all workers but one would otherwise wait for that sample's attention.
TEST(AttentionSpreadTest, ManyWorkersShareTheAttentionOfASample) {
  model::GptOptions o = Gpt(1000, 0);
  o.n_head = 4;
  o.n_embd = 256;
  const auto of = [&](model::Mode mode) { return model::Gpt(o, mode); };
  const LoweredModel model{
      LoweredGraph(
          std::make_shared<const model::Graph>(model::WithGradients(of(model::Mode::kTraining)))),
      LoweredGraph(std::make_shared<const model::Graph>(of(model::Mode::kEvaluation)))};
  Training training;
  training.batch = 1;
  CutRequest request{.model = model, .training = training, .size_bytes = {}, .batch_rows = {}};
  request.capacity_bytes = 1ull << 30;
  request.tuple_bytes = 1ull << 30;
  request.task_inputs = 4096;
  std::map<int, double> us;
  for (const int workers : {1, 4}) {
    request.speed.workers = workers;
    const auto chosen = ChooseCuts(request, nullptr);
    ASSERT_TRUE(chosen);
    us[workers] = chosen->cost.step_us;
    Pass pass;
    pass.job = "job";
    pass.rows = 1;
    std::map<Kernel, int> calls;
    for (const PlannedTask& task : GraphTasks(model, training, chosen->cuts).Tasks(pass)) {
      for (const Call& call : task.task.calls) {
        if (!call.gemm) ++calls[call.kernel];
      }
    }
    EXPECT_GE(calls[Kernel::kAttention], workers) << Summary(*chosen, 1);
    EXPECT_GE(calls[Kernel::kAttentionGradient], workers) << Summary(*chosen, 1);
  }
  EXPECT_LT(2 * us[4], us[1]);
}

}  // namespace
}  // namespace acan
