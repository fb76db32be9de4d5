// The model of a graph file, trained in this process under many cuts. All must give the same bits,
// and the numbers of the float64 interpreter.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "acan/model/graph_text.h"
#include "forwarding_device.h"
#include "lowering_fixture.h"
#include "reference.h"

namespace acan {

// Fills new memory with NaN, so that reads before the first write are detected.
class UnwrittenDevice : public test::ForwardingDevice {
 public:
  UnwrittenDevice() : ForwardingDevice(LoweringRunner::MakeCpu()) {}
  BufferPtr Allocate(std::uint64_t bytes) override {
    BufferPtr buffer = inner_->Allocate(bytes);
    const auto words = static_cast<std::int64_t>(buffer->size_bytes() / 4);
    KernelArgs args;
    args.m[0] = {buffer.get(), 0, 1, words, words};
    args.scalars.f[0] = std::numeric_limits<float>::quiet_NaN();
    if (words > 0) inner_->Launch(Kernel::kFill, args);
    return buffer;
  }
};

struct Trained {
  std::string hash;
  std::vector<float> loss, test_loss;
  friend bool operator==(const Trained&, const Trained&) = default;
};
inline void PrintTo(const Trained& trained, std::ostream* out) {
  *out << trained.hash << ", losses";
  for (const float loss : trained.loss) *out << " " << loss;
  *out << ", of evaluation";
  for (const float loss : trained.test_loss) *out << " " << loss;
}

class TriedModel {
 public:
  // The random choices depend on the file's content.
  TriedModel(const std::string& path, const std::string& text) : random_(NumberOf(text)) {
    const auto read = [&](model::Mode mode) { return model::ReadGraph(text, path, mode); };
    training_graph_ =
        std::make_shared<const model::Graph>(model::WithGradients(read(model::Mode::kTraining)));
    model_.emplace(LowerGraphs(*training_graph_, read(model::Mode::kEvaluation)));
    const auto draw = [&](std::uint64_t bound) { return static_cast<int>(random_() % bound); };
    samples_ = 1 + draw(12);
    training_.batch = samples_;
    training_.seed = random_();
    training_.block = 16 << draw(4);
    training_.optimizer = Optimizer::kMomentum;
    training_.learning_rate = 0.1;
    training_.momentum = 0.9;
    if (draw(3) == 0) training_.clip_norm = 0.5;
    for (const model::Input& input : training_graph_->inputs()) {
      inputs_[input.name] = model::RandomValue(*training_graph_, input.value, samples_, &random_);
    }
    const auto labels = inputs_.find("labels");
    if (labels == inputs_.end()) return;
    counted_ = 0;
    for (const double label : labels->second.values) counted_ += label >= 0 ? 1 : 0;
  }

  void TryAll() {
    const std::optional<ChosenCuts> whole = Choose(1ull << 32, 1);
    ASSERT_TRUE(whole) << "no cut fits";
    const Trained expected = Train(*whole, UINT64_MAX);
    CompareWithReference(*whole);
    TryNeighbours(*whole, expected);
    if (!testing::Test::HasFailure()) TryMemories(expected);
  }

 private:
  void TryNeighbours(ChosenCuts chosen, const Trained& expected) const {
    chosen.cuts.recompute = Recompute::kNothing;
    for (const std::int64_t size : {1, 3, 4}) {
      for (std::int64_t first = 1; first <= size; ++first) {
        chosen.cuts.training = Neighbours(size, first);
        EXPECT_EQ(Train(chosen, UINT64_MAX), expected)
            << "segments of " << size << " nodes, the first of " << first;
      }
    }
  }

  // Segments of `size` consecutive nodes each; nodes that wait for sums begin new ones.
  std::vector<Segment> Neighbours(std::int64_t size, std::int64_t first) const {
    const LoweredGraph& graph = model_->training;
    std::vector<Segment> segments;
    std::set<int> sums;
    for (std::int64_t id = 0; id < std::ssize(graph.nodes()); ++id) {
      const LoweredNode& node = graph.node(static_cast<int>(id));
      const bool waits = std::any_of(node.operands.begin(), node.operands.end(),
                                     [&](int operand) { return sums.contains(operand); });
      if (waits || id == 0 || (id >= first && (id - first) % size == 0)) {
        segments.push_back({{id, id}, {samples_, 0}});
        sums.clear();
      }
      segments.back().nodes.end = id + 1;
      for (const int result : node.results) {
        if (graph.value(result).kind == ValueKind::kSum) sums.insert(result);
      }
    }
    return segments;
  }

  void TryMemories(const Trained& expected) {
    std::uint64_t smallest = 0;
    if (Choose(1000, 1, &smallest)) smallest = 1000;
    ASSERT_NE(smallest, UINT64_MAX);
    for (const double more : {1.0, 1.02, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0}) {
      const auto capacity = static_cast<std::uint64_t>(static_cast<double>(smallest) * more);
      for (const int workers : {1, 3, 40}) {
        recompute_ = static_cast<Recompute>(random_() % 3);
        batch_rows_ = std::nullopt;
        if (random_() % 3 == 0) batch_rows_ = 1 + static_cast<std::int64_t>(random_() % 8);
        overhead_us_ = random_() % 2 == 0 ? 1 : 20;
        std::optional<ChosenCuts> chosen = Choose(capacity, workers);
        if (!chosen) {  // these choices may need more memory
          recompute_ = Recompute::kNothing;
          batch_rows_ = std::nullopt;
          chosen = Choose(capacity, workers);
        }
        ASSERT_TRUE(chosen) << capacity << " of " << smallest;
        EXPECT_EQ(Train(*chosen, capacity), expected)
            << "capacity " << capacity << ", workers " << workers << ", "
            << Summary(*chosen, samples_) << DumpOf(*chosen);
        if (testing::Test::HasFailure()) return;
      }
    }
  }

  // FNV-1a
  static std::uint64_t NumberOf(const std::string& text) {
    std::uint64_t number = 14695981039346656037u;
    for (const char each : text)
      number = (number ^ static_cast<std::uint8_t>(each)) * 1099511628211u;
    return number;
  }

  std::optional<ChosenCuts> Choose(std::uint64_t capacity, int workers,
                                   std::uint64_t* smallest = nullptr) const {
    CutRequest request{.model = *model_, .training = training_, .size_bytes = {}, .batch_rows = {}};
    request.capacity_bytes = capacity;
    request.recompute = recompute_;
    request.batch_rows = batch_rows_;
    request.speed.workers = workers;
    request.speed.overhead_us = overhead_us_;
    request.tuple_bytes = 1ull << 30;
    request.task_inputs = 4096;
    return ChooseCuts(request, smallest);
  }

  Trained Train(const ChosenCuts& chosen, std::uint64_t capacity) const {
    LoweringRunner runner(*model_, training_, chosen.cuts, std::make_unique<UnwrittenDevice>());
    runner.Initialize();
    Trained trained;
    for (const std::int64_t step : {0, 1}) {
      runner.Step(step, samples_, inputs_, counted_);
      for (const float sum : runner.loss()) trained.loss.push_back(sum);
    }
    runner.Evaluate(2, samples_, inputs_, counted_);
    EXPECT_LE(runner.largest_need_bytes(), capacity);
    trained.hash = runner.Hash(2);
    trained.test_loss = runner.loss();
    return trained;
  }

  void CompareWithReference(const ChosenCuts& chosen) const {
    Training without_clipping = training_;  // so that the first moment is the gradient
    without_clipping.clip_norm = 0;
    LoweringRunner runner(*model_, without_clipping, chosen.cuts);
    runner.Initialize();
    runner.Step(0, samples_, inputs_, counted_);
    model::Reference reference(*training_graph_, {samples_, training_.seed, 0});
    for (const model::Input& input : training_graph_->inputs()) {
      reference.Set(input.value, inputs_.at(input.name));
    }
    for (std::int32_t p = 0; p < std::ssize(training_graph_->parameters()); ++p) {
      const model::Parameter& parameter = training_graph_->parameter(p);
      model::Matrix matrix(parameter.rows, parameter.columns);
      const std::vector<float> values = runner.ValueOf(p, 0);
      std::copy(values.begin(), values.end(), matrix.values.begin());
      reference.Set(training_graph_->ValueOf(p), matrix);
    }
    reference.Run();
    for (const model::Gradient& gradient : training_graph_->gradients()) {
      const std::int32_t p = training_graph_->value(gradient.of).index;
      const model::Matrix& expected = reference[gradient.value];
      const std::vector<float> found = runner.ValueOf(p, 1, ParameterState::kFirstMoment);
      double largest = 0, worst = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        largest = std::max(largest, std::fabs(expected.values[i]));
        const double apart = std::fabs(expected.values[i] - static_cast<double>(found[i]));
        worst = std::isnan(apart) ? INFINITY : std::max(worst, apart);
      }
      EXPECT_LE(worst, 1e-3 * largest + 1e-6) << training_graph_->parameter(p).name;
    }
    for (const model::Assignment& assignment : training_graph_->assignments()) {
      const model::Matrix& expected = reference[assignment.value];
      const std::vector<float> found = runner.ValueOf(assignment.parameter, 1);
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_NEAR(static_cast<double>(found[i]), expected.values[i],
                    1e-4 * (1 + std::fabs(expected.values[i])))
            << training_graph_->parameter(assignment.parameter).name;
      }
    }
  }

  std::string DumpOf(const ChosenCuts& chosen) const {
    std::string text = "\n";
    const LoweredGraph& graph = model_->TrainingOf(chosen.cuts.recompute);
    for (const Segment& segment : chosen.cuts.training) {
      text += "  samples " + std::to_string(segment.rows.samples) + ", positions " +
              std::to_string(segment.rows.positions) + ", parts " +
              std::to_string(segment.column_parts) + (segment.by_tiles ? ", by tiles" : "") +
              (segment.in_phases ? ", in phases" : "") + (segment.in_updates ? ", updates" : "");
      for (std::int64_t n = segment.nodes.begin; n < segment.nodes.end; ++n) {
        text += " " + graph.node(static_cast<int>(n)).node->name;
      }
      text += "\n";
    }
    return text;
  }

  model::Random random_;
  std::shared_ptr<const model::Graph> training_graph_;
  std::optional<LoweredModel> model_;
  Training training_;
  std::int64_t samples_ = 1;
  LoweringRunner::Inputs inputs_;
  std::int64_t counted_ = -1;
  Recompute recompute_ = Recompute::kNothing;
  std::optional<std::int64_t> batch_rows_;
  double overhead_us_ = 1;
};

}  // namespace acan
