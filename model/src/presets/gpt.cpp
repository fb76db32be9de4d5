#include <fmt/format.h>

#include <cmath>

#include "composer.h"

namespace acan::model {
namespace {

constexpr float kDeviation = 0.02f;
constexpr float kGptEpsilon = 1e-5f;

class GptComposer {
 public:
  GptComposer(const GptOptions& options, Mode mode)
      : options_(options),
        length_(CheckedLength(options.sequence_length, "block_size", options.block_size)),
        composer_(mode) {
    CheckCount("n_layer", options.n_layer, 1, kMaxLayers);
    CheckCount("n_embd", options.n_embd, 1, kMaxFeatures / 4);
    CheckDivides("n_head", options.n_head, {{"n_embd", options.n_embd}});
    CheckCount("vocab_size", options.vocab_size, 2, kMaxRows);
    CheckRate("dropout", options.dropout);
  }

  Graph Compose() && {
    Graph& graph = composer_.graph();
    const ValueId tokens =
        graph.AddInput("tokens", InputRole::kTokens, length_, 1, options_.vocab_size);
    const Initial normal = Normal{0, kDeviation};
    const ValueId table =
        composer_.Table("transformer.wte.weight", options_.vocab_size, options_.n_embd, normal);
    const ValueId positions =
        composer_.Table("transformer.wpe.weight", options_.block_size, options_.n_embd, normal);
    const ValueId wte = graph.Add("transformer.wte", Embedding{}, {tokens, table});
    const ValueId wpe = graph.Add("transformer.wpe", LearnedPositions{0, length_}, {positions});
    ValueId x = composer_.Dropout(
        "transformer.drop", composer_.Add("transformer.embedded", wte, wpe), options_.dropout);
    for (std::int64_t i = 0; i < options_.n_layer; ++i) {
      x = Block(fmt::format("transformer.h.{}", i), x);
    }
    x = composer_.LayerNorm("transformer.ln_f", x, kGptEpsilon, options_.bias);
    // Tied: the head's weight is the embedding's table.
    const ValueId logits = graph.Add("lm_head", Linear{}, {x, table});
    graph.AddTiedName("lm_head.weight", table);
    composer_.Classify(logits, options_.vocab_size, options_.label_smoothing);
    return std::move(composer_).Take();
  }

 private:
  ValueId Dense(const std::string& name, ValueId x, std::int64_t outputs, float deviation) {
    LinearStart start{Normal{0, deviation}, std::nullopt, FileLayout::kTransposed};
    if (options_.bias) start.bias = Constant{0};
    return composer_.Linear(name, x, outputs, start);
  }

  ValueId Block(const std::string& name, ValueId x) {
    // The more branches are added up, the smaller their initial weights.
    const auto branch = static_cast<float>(static_cast<double>(kDeviation) /
                                           std::sqrt(2.0 * static_cast<double>(options_.n_layer)));
    const std::int64_t width = options_.n_embd;
    const auto end_branch = [&](const std::string& of, ValueId before, ValueId y) {
      y = composer_.Dropout(of + ".dropout", y, options_.dropout);
      return composer_.Add(of + ".residual", before, y);
    };
    ValueId y = composer_.LayerNorm(name + ".ln_1", x, kGptEpsilon, options_.bias);
    y = Dense(name + ".attn.c_attn", y, 3 * width, kDeviation);
    y = composer_.FusedAttention(
        name + ".attn", y,
        composer_.AttentionOf(AttentionMask::kCausal, options_.n_head, options_.n_head,
                              width / options_.n_head, options_.dropout));
    x = end_branch(name + ".attn", x, Dense(name + ".attn.c_proj", y, width, branch));
    y = composer_.LayerNorm(name + ".ln_2", x, kGptEpsilon, options_.bias);
    y = Dense(name + ".mlp.c_fc", y, 4 * width, kDeviation);
    y = composer_.Activation(name + ".mlp.act", y, options_.activation);
    return end_branch(name + ".mlp", x, Dense(name + ".mlp.c_proj", y, width, branch));
  }

  const GptOptions& options_;
  std::int64_t length_;
  Composer composer_;
};

}  // namespace

Graph Gpt(const GptOptions& options, Mode mode) {
  return GptComposer(options, mode).Compose();
}

}  // namespace acan::model
