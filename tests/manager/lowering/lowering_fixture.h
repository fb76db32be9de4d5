// Small models of all kinds, lowered to tasks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "acan/manager/graph_planner.h"
#include "acan/model/gradients.h"
#include "acan/model/presets.h"
#include "gradient_check.h"
#include "lowering_runner.h"

namespace acan {

struct SmallModel {
  std::string name;
  std::uint64_t least_kib;  // smallest memory with which a handler can take part
  std::function<model::Graph(model::Mode)> make;
};
inline void PrintTo(const SmallModel& model, std::ostream* out) {
  *out << model.name;
}

inline model::GptOptions SmallGptOptions(std::int64_t length, float dropout) {
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

inline const std::vector<SmallModel> kSmallModels = {
    {"perceptron", 80,
     [](model::Mode mode) {
       return model::Mlp({.layers = {70, 130, 90, 10},
                          .activation = model::ActivationKind::kTanh,
                          .loss = model::LossKind::kCrossEntropy},
                         mode);
     }},
    {"gpt", 128, [](model::Mode mode) { return model::Gpt(SmallGptOptions(40, 0), mode); }},
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
     [](model::Mode mode) { return model::Gpt(SmallGptOptions(150, 0.1f), mode); }},
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
    // Groups with an odd number of channels, over more rows than a leaf has.
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
    // The last stage has 25 positions, so there a group is two samples; in earlier stages it is
    // one.
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

class LoweringTest : public testing::TestWithParam<SmallModel> {
 protected:
  static constexpr std::int64_t kSamples = 5;

  LoweringTest()
      : training_graph_(std::make_shared<const model::Graph>(
            model::WithGradients(GetParam().make(model::Mode::kTraining)))),
        evaluation_graph_(
            std::make_shared<const model::Graph>(GetParam().make(model::Mode::kEvaluation))),
        model_(LowerGraphs(*training_graph_, *evaluation_graph_)) {
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
    request.speed.workers = workers;
    request.speed.overhead_us = 1;  // otherwise hardly any cut would pay off in such small models
    request.tuple_bytes = 1ull << 30;
    request.task_inputs = 4096;
    return ChooseCuts(request, smallest);
  }

  // A segment for each node. A node that reduces rows gets the cut that the row order of its first
  // operand with rows allows.
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

  // One segment for the forward pass and one for the backward pass, except that nodes that wait for
  // sums over all rows begin new segments.
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

  // Whether the boxes can make all sums over rows.
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

}  // namespace acan
