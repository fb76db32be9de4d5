#include <fmt/format.h>

#include "acan/core/error.h"
#include "acan/core/rotary_angles.h"
#include "composer.h"

namespace acan::model {
namespace {

class LlamaComposer {
 public:
  LlamaComposer(const LlamaOptions& options, Mode mode)
      : o_(options),
        length_(CheckedLength(options.sequence_length, "max_position_embeddings",
                              options.max_position_embeddings)),
        composer_(mode) {
    CheckCount("num_hidden_layers", o_.num_hidden_layers, 1, kMaxLayers);
    CheckCount("hidden_size", o_.hidden_size);
    CheckCount("intermediate_size", o_.intermediate_size);
    CheckCount("vocab_size", o_.vocab_size, 2, kMaxRows);
    CheckCount("num_attention_heads", o_.num_attention_heads);
    CheckPositive("rms_norm_eps", o_.rms_norm_eps);
    CheckPositive("rope_theta", o_.rope_theta);
    CheckPositive("initializer_range", o_.initializer_range);
    CheckRate("attention_dropout", o_.attention_dropout);
    if (o_.num_key_value_heads == 0) o_.num_key_value_heads = o_.num_attention_heads;
    CheckDivides("num_key_value_heads", o_.num_key_value_heads,
                 {{"num_attention_heads", o_.num_attention_heads}});
    if (o_.head_dim == 0) {
      CheckDivides("num_attention_heads", o_.num_attention_heads,
                   {{"hidden_size", o_.hidden_size}});
      o_.head_dim = o_.hidden_size / o_.num_attention_heads;
    }
    CheckCount("head_dim", o_.head_dim);
    if (o_.head_dim % 2 != 0) {
      throw UsageError(
          fmt::format("model: head_dim = {} must be even, as rotary positions turn "
                      "pairs of features; it is hidden_size / num_attention_heads "
                      "unless it is set",
                      o_.head_dim));
    }
    CheckPositions();
  }

  Graph Compose() && {
    Graph& graph = composer_.graph();
    const ValueId tokens = graph.AddInput("tokens", InputRole::kTokens, length_, 1, o_.vocab_size);
    const ValueId table = composer_.Table("model.embed_tokens.weight", o_.vocab_size,
                                          o_.hidden_size, Normal{0, o_.initializer_range});
    ValueId x = graph.Add("model.embed_tokens", Embedding{}, {tokens, table});
    for (std::int64_t i = 0; i < o_.num_hidden_layers; ++i) {
      x = Layer(fmt::format("model.layers.{}", i), x);
    }
    x = composer_.RmsNorm("model.norm", x, o_.rms_norm_eps);
    const ValueId logits = o_.tie_word_embeddings ? graph.Add("lm_head", Linear{}, {x, table})
                                                  : Dense("lm_head", x, o_.vocab_size, false);
    if (o_.tie_word_embeddings) graph.AddTiedName("lm_head.weight", table);
    composer_.Classify(logits, o_.vocab_size, o_.label_smoothing);
    return std::move(composer_).Take();
  }

 private:
  void CheckPositions() const {
    const std::int64_t most = MostRotaryPositions(o_.head_dim, static_cast<double>(o_.rope_theta));
    if (length_ <= most) return;
    if (most < kMaxRotaryPositions) {
      throw UsageError(
          fmt::format("model: rope_theta = {} is too small for sequences of {} tokens: with "
                      "head_dim = {}, only positions below {} have angles; a rope_theta of at "
                      "least 1 is enough for {} positions",
                      o_.rope_theta, length_, o_.head_dim, most, kMaxRotaryPositions));
    }
    throw UsageError(fmt::format(
        "model: {} = {} must be at most {}, as no more rotary positions have angles",
        o_.sequence_length == 0 ? "max_position_embeddings" : "sequence_length", length_, most));
  }

  ValueId Dense(const std::string& name, ValueId x, std::int64_t outputs, bool bias) {
    LinearStart start{Normal{0, o_.initializer_range}, std::nullopt};
    if (bias) start.bias = Constant{0};
    return composer_.Linear(name, x, outputs, start);
  }

  ValueId Attend(const std::string& name, ValueId x) {
    Graph& graph = composer_.graph();
    const std::int64_t d = o_.head_dim;
    ValueId q = Dense(name + ".q_proj", x, o_.num_attention_heads * d, o_.attention_bias);
    ValueId k = Dense(name + ".k_proj", x, o_.num_key_value_heads * d, o_.attention_bias);
    const ValueId v = Dense(name + ".v_proj", x, o_.num_key_value_heads * d, o_.attention_bias);
    const Rotary rotary{d, o_.rope_theta, Rotation::kForward};
    q = graph.Add(name + ".q_rotary", rotary, {q});
    k = graph.Add(name + ".k_rotary", rotary, {k});
    const ValueId o =
        graph.Add(name,
                  composer_.AttentionOf(AttentionMask::kCausal, o_.num_attention_heads,
                                        o_.num_key_value_heads, d, o_.attention_dropout),
                  {q, k, v});
    return Dense(name + ".o_proj", o, o_.hidden_size, o_.attention_bias);
  }

  ValueId Layer(const std::string& name, ValueId x) {
    ValueId y = composer_.RmsNorm(name + ".input_layernorm", x, o_.rms_norm_eps);
    x = composer_.Add(name + ".self_attn.residual", x, Attend(name + ".self_attn", y));
    y = composer_.RmsNorm(name + ".post_attention_layernorm", x, o_.rms_norm_eps);
    const ValueId gate = Dense(name + ".mlp.gate_proj", y, o_.intermediate_size, o_.mlp_bias);
    const ValueId up = Dense(name + ".mlp.up_proj", y, o_.intermediate_size, o_.mlp_bias);
    y = composer_.graph().Add(name + ".mlp.act", SwiGlu{}, {gate, up});
    y = Dense(name + ".mlp.down_proj", y, o_.hidden_size, o_.mlp_bias);
    return composer_.Add(name + ".mlp.residual", x, y);
  }

  LlamaOptions o_;
  std::int64_t length_;
  Composer composer_;
};

}  // namespace

Graph Llama(const LlamaOptions& options, Mode mode) {
  return LlamaComposer(options, mode).Compose();
}

}  // namespace acan::model
