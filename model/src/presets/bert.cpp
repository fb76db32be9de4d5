#include <fmt/format.h>

#include "acan/core/error.h"
#include "composer.h"

namespace acan::model {
namespace {

class BertComposer {
 public:
  BertComposer(const BertOptions& options, Mode mode)
      : o_(options),
        length_(CheckedLength(options.sequence_length, "max_position_embeddings",
                              options.max_position_embeddings)),
        prefix_(options.task == BertTask::kEncoder ? "" : "bert."),
        composer_(mode) {
    CheckCount("num_hidden_layers", o_.num_hidden_layers, 1, kMaxLayers);
    CheckCount("hidden_size", o_.hidden_size);
    CheckCount("intermediate_size", o_.intermediate_size);
    CheckCount("vocab_size", o_.vocab_size, 2, kMaxRows);
    CheckCount("type_vocab_size", o_.type_vocab_size, 1, kMaxRows);
    CheckDivides("num_attention_heads", o_.num_attention_heads, {{"hidden_size", o_.hidden_size}});
    CheckCount("pad_token_id", o_.pad_token_id, -1, o_.vocab_size - 1);
    CheckRate("hidden_dropout_prob", o_.hidden_dropout_prob);
    CheckRate("attention_probs_dropout_prob", o_.attention_probs_dropout_prob);
    CheckPositive("initializer_range", o_.initializer_range);
    CheckPositive("layer_norm_eps", o_.layer_norm_eps);
    if (o_.task == BertTask::kClassification) CheckCount("num_labels", o_.num_labels, 2);
  }

  Graph Compose() && {
    ValueId x = Embed();
    lengths_ = composer_.graph().AddInput("lengths", InputRole::kLengths, 1, 1, length_);
    for (std::int64_t i = 0; i < o_.num_hidden_layers; ++i) {
      x = Layer(fmt::format("{}encoder.layer.{}", prefix_, i), x);
    }
    switch (o_.task) {
      case BertTask::kEncoder:
        composer_.graph().AddOutput("last_hidden_state", x);
        if (o_.add_pooling_layer) composer_.graph().AddOutput("pooler_output", Pool(x));
        composer_.graph().AddOutput(
            "sentence_embedding",
            composer_.graph().Add("sentence", GlobalPooling{}, {x, lengths_}));
        break;
      case BertTask::kMaskedLanguage:
        PredictMasked(x);
        break;
      case BertTask::kClassification: {
        const ValueId pooled = composer_.Dropout("dropout", Pool(x), o_.hidden_dropout_prob);
        composer_.Classify(Dense("classifier", pooled, o_.num_labels), o_.num_labels,
                           o_.label_smoothing);
        break;
      }
    }
    return std::move(composer_).Take();
  }

 private:
  ValueId Dense(const std::string& name, ValueId x, std::int64_t outputs) {
    return composer_.Linear(name, x, outputs, {Normal{0, o_.initializer_range}, Constant{0}});
  }
  ValueId Norm(const std::string& name, ValueId x) {
    return composer_.LayerNorm(name, x, o_.layer_norm_eps);
  }

  ValueId Embed() {
    Graph& graph = composer_.graph();
    const std::string name = prefix_ + "embeddings";
    const ValueId tokens = graph.AddInput("tokens", InputRole::kTokens, length_, 1, o_.vocab_size);
    const ValueId types =
        graph.AddInput("token_type_ids", InputRole::kTokens, length_, 1, o_.type_vocab_size);
    const auto table = [&](const std::string& of, std::int64_t rows) {
      return composer_.Table(name + of + ".weight", rows, o_.hidden_size,
                             Normal{0, o_.initializer_range});
    };
    words_ = table(".word_embeddings", o_.vocab_size);
    const ValueId places = table(".position_embeddings", o_.max_position_embeddings);
    const ValueId kinds = table(".token_type_embeddings", o_.type_vocab_size);
    const ValueId word =
        graph.Add(name + ".word_embeddings", Embedding{o_.pad_token_id}, {tokens, words_});
    const ValueId kind = graph.Add(name + ".token_type_embeddings", Embedding{}, {types, kinds});
    const ValueId place =
        graph.Add(name + ".position_embeddings", LearnedPositions{0, length_}, {places});
    ValueId x = composer_.Add(name + ".typed", word, kind);
    x = composer_.Add(name + ".placed", x, place);
    x = Norm(name + ".LayerNorm", x);
    return composer_.Dropout(name + ".dropout", x, o_.hidden_dropout_prob);
  }

  // A branch ends with a linear operator, dropout, the addition and a norm.
  ValueId EndBranch(const std::string& name, ValueId before, ValueId y) {
    y = Dense(name + ".dense", y, o_.hidden_size);
    y = composer_.Dropout(name + ".dropout", y, o_.hidden_dropout_prob);
    return Norm(name + ".LayerNorm", composer_.Add(name + ".residual", y, before));
  }

  ValueId Layer(const std::string& name, ValueId x) {
    const std::string self = name + ".attention.self";
    const ValueId q = Dense(self + ".query", x, o_.hidden_size);
    const ValueId k = Dense(self + ".key", x, o_.hidden_size);
    const ValueId v = Dense(self + ".value", x, o_.hidden_size);
    const Attention attention = composer_.AttentionOf(
        AttentionMask::kFull, o_.num_attention_heads, o_.num_attention_heads,
        o_.hidden_size / o_.num_attention_heads, o_.attention_probs_dropout_prob);
    ValueId y = composer_.graph().Add(self, attention, {q, k, v, lengths_});
    x = EndBranch(name + ".attention.output", x, y);
    y = Dense(name + ".intermediate.dense", x, o_.intermediate_size);
    y = composer_.Activation(name + ".intermediate.act", y, o_.hidden_act);
    return EndBranch(name + ".output", x, y);
  }

  ValueId Pool(ValueId x) {
    const ValueId first =
        composer_.graph().Add(prefix_ + "pooler.first", Slice{SliceAxis::kPositions, 0, 1}, {x});
    return composer_.Activation(prefix_ + "pooler.act",
                                Dense(prefix_ + "pooler.dense", first, o_.hidden_size),
                                ActivationKind::kTanh);
  }

  void PredictMasked(ValueId x) {
    const std::string name = "cls.predictions";
    x = Dense(name + ".transform.dense", x, o_.hidden_size);
    x = composer_.Activation(name + ".transform.act", x, o_.hidden_act);
    x = Norm(name + ".transform.LayerNorm", x);
    Graph& graph = composer_.graph();
    const ValueId bias = graph.AddParameter(
        VectorParameter(name + ".bias", Role::kBias, o_.vocab_size, Constant{0}));
    // Tied: the decoder's weight is the table of word embeddings.
    const ValueId logits = graph.Add(name + ".decoder", Linear{}, {x, words_, bias});
    graph.AddTiedName(name + ".decoder.weight", words_);
    graph.AddTiedName(name + ".decoder.bias", bias);
    composer_.Classify(logits, o_.vocab_size, o_.label_smoothing);
  }

  const BertOptions& o_;
  std::int64_t length_;
  std::string prefix_;
  Composer composer_;
  ValueId words_ = kNoValue;
  ValueId lengths_ = kNoValue;
};

}  // namespace

Graph Bert(const BertOptions& options, Mode mode) {
  return BertComposer(options, mode).Compose();
}

}  // namespace acan::model
