#include "key_synonyms.h"

#include <fmt/format.h>

#include <algorithm>

namespace acan {
namespace {

using Words = std::vector<std::string_view>;

// In any section, `words` mean `key` of `section`.
struct Synonyms {
  std::string_view section, key;
  Words words;
};

const std::vector<Synonyms>& AllSynonyms() {
  static const std::vector<Synonyms> kAll = {
      {"train",
       "batch",
       {"batch_size", "batchsize", "train_batch_size", "per_device_train_batch_size", "bs"}},
      {"train", "epochs", {"num_epochs", "n_epochs", "max_epochs", "num_train_epochs"}},
      {"train",
       "steps",
       {"max_steps", "num_steps", "total_steps", "max_iters", "num_iters", "iterations"}},
      {"train", "learning_rate", {"lr", "max_lr", "base_lr", "peak_lr"}},
      {"train", "weight_decay", {"wd", "l2"}},
      {"train", "beta1", {"adam_beta1"}},
      {"train", "beta2", {"adam_beta2"}},
      {"train",
       "clip_norm",
       {"grad_clip", "max_grad_norm", "gradient_clip", "gradient_clipping", "gradient_clip_val",
        "clip_grad_norm"}},
      {"train", "warmup_steps", {"warmup", "num_warmup_steps", "warmup_iters"}},
      {"train",
       "schedule",
       {"lr_schedule", "lr_scheduler", "lr_scheduler_type", "scheduler", "decay_lr"}},
      {"train", "step_every", {"step_size", "lr_step_size"}},
      {"train", "step_factor", {"gamma", "lr_gamma"}},
      {"train", "optimizer", {"optim", "optimiser"}},
      {"train", "epsilon", {"eps", "adam_epsilon"}},
      {"train", "seed", {"random_seed", "manual_seed"}},
      {"train", "precision", {"dtype"}},
      {"train", "evaluate_every", {"eval_every", "eval_interval", "eval_steps"}},
      {"snapshots", "every_steps", {"save_every", "save_steps", "checkpoint_every"}},
      {"model", "kind", {"type", "arch", "architecture", "model_type"}},
      {"model", "initial_weights", {"pretrained", "init_from", "checkpoint"}},
      {"model", "label_smoothing", {"label_smoothing_factor"}},
      {"data", "train_inputs", {"inputs", "images", "features", "train_images"}},
      {"data", "train_labels", {"labels", "classes"}},
      {"data", "train_targets", {"targets"}},
      {"data", "test_inputs", {"val_inputs", "valid_inputs", "test_images"}},
      {"data", "test_labels", {"val_labels", "valid_labels"}},
      {"data", "test_text", {"val_text", "valid_text"}},
      {"data", "test_fraction", {"val_fraction", "validation_split"}},
  };
  return kAll;
}

// Words for which no key stands with the same value, and what to do instead.
struct Note {
  Words words;
  std::string_view text;
};

const std::vector<Note>& Notes() {
  static const std::vector<Note> kAll = {
      {{"min_lr", "lr_min", "eta_min", "final_lr", "end_lr"},
       "set 'final_fraction' in [train] to the final learning rate as a share of 'learning_rate', "
       "with schedule = \"cosine\""},
      {{"lr_decay_iters", "lr_decay_steps", "decay_steps", "T_max"},
       "the schedule ends with the last step, which 'steps' or 'epochs' in [train] sets"},
      {{"gradient_accumulation_steps", "gradient_accumulation", "grad_accum_steps", "grad_accum",
        "accumulate_grad_batches"},
       "acan accumulates gradients by itself: set 'batch' in [train] to all samples of a step"},
      {{"betas"}, "set 'beta1' and 'beta2' in [train]"},
      {{"warmup_ratio"}, "set 'warmup_steps' in [train], a number of steps"},
      {{"rope_scaling", "rope_parameters", "rope_type"},
       "acan does not scale rotary positions; 'rope_theta' in [model] is their base"},
      {{"out_dir", "output_dir"}, "the flag --out names the output folder"},
  };
  return kAll;
}

// Keys of different kinds of models that mean the same, and other words for it.
struct Meaning {
  Words keys, words;
};

const std::vector<Meaning>& Meanings() {
  static const std::vector<Meaning> kAll = {
      {{"layers"}, {"layer_sizes", "hidden_layers", "hidden_sizes"}},
      {{"n_embd", "hidden_size", "hidden_dim"},
       {"n_embed", "d_model", "dim", "embed_dim", "embedding_dim", "emb_dim"}},
      {{"n_layer", "num_hidden_layers", "num_layers"}, {"n_layers", "depth"}},
      {{"n_head", "num_attention_heads", "num_heads"}, {"n_heads", "nhead", "heads"}},
      {{"num_key_value_heads"},
       {"num_kv_heads", "n_kv_heads", "n_kv_head", "kv_heads", "num_query_groups"}},
      {{"block_size", "max_position_embeddings"},
       {"n_positions", "n_ctx", "context_length", "context_size", "max_seq_len", "max_length",
        "seq_len"}},
      {{"vocab_size"}, {"n_vocab", "vocabulary_size", "padded_vocab_size"}},
      {{"intermediate_size", "mlp_dim"}, {"n_inner", "d_ff", "ffn_dim", "dim_feedforward"}},
      {{"num_classes", "num_labels"}, {"n_classes", "classes"}},
      {{"activation", "hidden_act"},
       {"activation_function", "act_fn", "hidden_activation", "nonlinearity"}},
      {{"attention_dropout", "attention_probs_dropout_prob"}, {"attn_pdrop", "attn_dropout"}},
      // The rate of gpt is that of the attention weights, too.
      {{"dropout", "hidden_dropout_prob"},
       {"resid_pdrop", "embd_pdrop", "attn_pdrop", "attn_dropout", "dropout_rate", "drop_rate"}},
      {{"layer_norm_eps", "rms_norm_eps"},
       {"layer_norm_epsilon", "layernorm_epsilon", "norm_epsilon", "norm_eps"}},
      {{"rope_theta"}, {"rope_base", "rotary_base", "rotary_emb_base"}},
      {{"initializer_range"}, {"init_std", "initializer_std"}},
      {{"tie_word_embeddings"}, {"tie_embeddings", "tie_weights", "weight_tying"}},
      {{"attention_bias"}, {"qkv_bias"}},
      {{"image_size"}, {"img_size"}},
      {{"channels"}, {"num_channels", "in_channels", "in_chans", "n_channels"}},
      {{"widths"}, {"dims", "hidden_sizes"}},
      {{"blocks"}, {"depths"}},
      {{"layer_scale"}, {"layer_scale_init_value"}},
      {{"stochastic_depth_prob"}, {"drop_path_rate"}},
  };
  return kAll;
}

bool Has(const Words& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// The one of `own` that has the meaning; empty if there is none.
std::string OwnKeyOf(const Meaning& meaning, const std::vector<std::string>& own) {
  const auto at =
      std::ranges::find_if(own, [&](const std::string& one) { return Has(meaning.keys, one); });
  return at == own.end() ? "" : *at;
}

// "'n_embd', 'hidden_size' or 'hidden_dim'"
std::string AnyOf(const Words& keys) {
  std::string names;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const char* between = i == 0 ? "" : i + 1 < keys.size() ? ", " : " or ";
    names += fmt::format("{}'{}'", between, keys[i]);
  }
  return names;
}

std::string HintOfModel(std::string_view key, const OwnKeys& own) {
  const Meaning* other = nullptr;
  for (const Meaning& meaning : Meanings()) {
    if (!Has(meaning.words, key)) continue;
    if (other == nullptr) other = &meaning;
    if (own.kind.empty()) continue;
    const std::string same = OwnKeyOf(meaning, own.keys);
    if (!same.empty()) return fmt::format(": did you mean '{}'?", same);
  }
  if (other == nullptr) return "";
  if (own.kind.empty()) {
    return fmt::format(": did you mean {}? That depends on model.kind", AnyOf(other->keys));
  }
  return fmt::format(": kind \"{}\" has no such key; other kinds call it {}", own.kind,
                     AnyOf(other->keys));
}

}  // namespace

std::string SynonymHint(std::string_view section, std::string_view key, const OwnKeys& own) {
  if (section == "model") {
    if (std::string hint = HintOfModel(key, own); !hint.empty()) return hint;
  }
  for (const Note& note : Notes()) {
    if (Has(note.words, key)) return fmt::format(": {}", note.text);
  }
  for (const Synonyms& synonyms : AllSynonyms()) {
    if (!Has(synonyms.words, key)) continue;
    return synonyms.section == section
               ? fmt::format(": did you mean '{}'?", synonyms.key)
               : fmt::format(": did you mean '{}' in [{}]?", synonyms.key, synonyms.section);
  }
  return "";
}

std::string OwnKeyFor(std::string_view key, const std::vector<std::string>& own) {
  for (const Meaning& meaning : Meanings()) {
    if (!Has(meaning.keys, key)) continue;
    std::string same = OwnKeyOf(meaning, own);
    if (!same.empty()) return same;
  }
  return "";
}

}  // namespace acan
