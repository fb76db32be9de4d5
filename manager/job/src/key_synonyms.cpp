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
      {"train", "batch", {"batch_size", "batchsize", "train_batch_size", "bs"}},
      {"train", "epochs", {"num_epochs", "n_epochs", "max_epochs", "num_train_epochs"}},
      {"train",
       "steps",
       {"max_steps", "num_steps", "total_steps", "max_iters", "num_iters", "iterations"}},
      {"train", "learning_rate", {"lr", "max_lr", "base_lr"}},
      {"train", "weight_decay", {"wd", "l2"}},
      {"train",
       "clip_norm",
       {"grad_clip", "max_grad_norm", "gradient_clip", "gradient_clipping", "gradient_clip_val",
        "clip_grad_norm"}},
      {"train", "warmup_steps", {"warmup", "num_warmup_steps", "warmup_iters"}},
      {"train", "schedule", {"lr_schedule", "lr_scheduler", "lr_scheduler_type", "scheduler"}},
      {"train", "optimizer", {"optim", "optimiser"}},
      {"train", "epsilon", {"eps", "adam_epsilon"}},
      {"train", "seed", {"random_seed", "manual_seed"}},
      {"train", "precision", {"dtype"}},
      {"train", "evaluate_every", {"eval_every", "eval_interval", "eval_steps"}},
      {"snapshots", "every_steps", {"save_every", "save_steps", "checkpoint_every"}},
      {"model", "kind", {"type", "arch", "architecture"}},
      {"model", "layers", {"layer_sizes", "hidden_layers", "hidden_sizes"}},
      {"model", "initial_weights", {"pretrained", "init_from", "checkpoint"}},
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

// Keys of different kinds of models that mean the same, and other words for it.
struct Meaning {
  Words keys, words;
};

const std::vector<Meaning>& Meanings() {
  static const std::vector<Meaning> kAll = {
      {{"n_embd", "hidden_size", "hidden_dim"},
       {"n_embed", "d_model", "dim", "embed_dim", "embedding_dim", "emb_dim"}},
      {{"n_layer", "num_hidden_layers", "num_layers"}, {"n_layers", "depth"}},
      {{"n_head", "num_attention_heads", "num_heads"}, {"n_heads", "nhead", "heads"}},
      {{"block_size", "max_position_embeddings"},
       {"context_length", "context_size", "max_seq_len", "max_length", "seq_len"}},
      {{"intermediate_size", "mlp_dim"}, {"n_inner", "d_ff", "ffn_dim", "dim_feedforward"}},
      {{"num_classes", "num_labels"}, {"n_classes", "classes"}},
      {{"activation", "hidden_act"}, {}},
  };
  return kAll;
}

bool Has(const Words& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

std::string HintOfModel(std::string_view key) {
  for (const Meaning& meaning : Meanings()) {
    if (!Has(meaning.words, key)) continue;
    std::string names;
    for (std::size_t i = 0; i < meaning.keys.size(); ++i) {
      const char* between = i == 0 ? "" : i + 1 < meaning.keys.size() ? ", " : " or ";
      names += fmt::format("{}'{}'", between, meaning.keys[i]);
    }
    return fmt::format(": did you mean {}? That depends on model.kind", names);
  }
  return "";
}

}  // namespace

std::string SynonymHint(std::string_view section, std::string_view key) {
  if (section == "model") {
    if (std::string hint = HintOfModel(key); !hint.empty()) return hint;
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
    const auto at =
        std::ranges::find_if(own, [&](const std::string& one) { return Has(meaning.keys, one); });
    if (at != own.end()) return *at;
  }
  return "";
}

}  // namespace acan
