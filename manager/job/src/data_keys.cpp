#include "data_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "acan/core/error.h"
#include "job_words.h"

namespace acan {
namespace {

constexpr std::int64_t kMaxCropPadding = 1024;
constexpr std::size_t kMaxChannels = 1 << 14;

// The keys that each kind of data uses, besides `shuffle`, which all kinds use.
struct Kind {
  const char* name;
  std::vector<std::string> chosen_by;
  std::vector<std::string> keys;
};

const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kKinds = {
      {"data.generated", {"generated"}, {"samples"}},
      {"data.text", {"text"}, {"test_fraction", "tokenizer"}},
      {"data.train_text", {"train_text"}, {"test_text", "tokenizer"}},
      {"data.train_tokens",
       {"train_tokens"},
       {"test_tokens", "tokens_type", "train_labels", "test_labels", "train_lengths",
        "test_lengths", "train_token_types", "test_token_types", "ignore_label"}},
      {"data.train_inputs",
       {"train_inputs"},
       {"train_labels", "train_targets", "test_inputs", "test_labels", "test_targets", "layout",
        "mean", "std", "crop_padding", "flip", "ignore_label"}}};
  return kKinds;
}

bool Contains(const std::vector<std::string>& keys, const std::string& key) {
  return std::ranges::find(keys, key) != keys.end();
}

// The kind that the section chooses; files of values by default.
const Kind& ChosenKind(const Section& data) {
  for (const Kind& kind : Kinds()) {
    if (std::ranges::any_of(kind.chosen_by, [&](const auto& key) { return data.Has(key); })) {
      return kind;
    }
  }
  return Kinds().back();
}

// The kinds that use a key: "data.text or data.train_text".
std::string KindsWith(const std::string& key) {
  std::string text;
  for (const Kind& kind : Kinds()) {
    if (!Contains(kind.keys, key)) continue;
    text += (text.empty() ? "" : " or ") + std::string(kind.name);
  }
  return text;
}

}  // namespace

void RefuseOtherKinds(const Section& data) {
  const Kind& chosen = ChosenKind(data);
  for (const Kind& kind : Kinds()) {
    for (const std::string& key : kind.chosen_by) {
      if (&kind == &chosen || !data.Has(key)) continue;
      data.Refuse(
          key, fmt::format("a job has one kind of data, but {} is also set; remove one of the two",
                           chosen.name));
    }
    for (const std::string& key : kind.keys) {
      if (Contains(chosen.keys, key) || !data.Has(key)) continue;
      data.Refuse(key,
                  fmt::format("{} does not use it; it is for {}", chosen.name, KindsWith(key)));
    }
  }
}

void ReadTextKeys(const Section& data, const PathOfKey& path, TextData* text) {
  if (!data.Has("text") && !data.Has("train_text")) return;
  text->text = path("text");
  text->train_text = path("train_text");
  text->test_text = path("test_text");
  data.Number("test_fraction", 0, 0.999, &text->test_fraction);
  if (!data.Has("tokenizer")) return;
  data.Text("tokenizer", &text->tokenizer);
  if (text->tokenizer == kCharacters || text->tokenizer == kBytes) return;
  if (!text->tokenizer.ends_with(".model")) {
    data.Refuse("tokenizer", fmt::format("must be \"{}\", \"{}\", or the path of a SentencePiece "
                                         "model, which ends with .model",
                                         kCharacters, kBytes));
  }
  text->tokenizer = path("tokenizer");
}

void ReadTokenKeys(const Section& data, const PathOfKey& path, DataFiles* files) {
  TokenData& tokens = files->tokens;
  tokens.train = path("train_tokens");
  if (tokens.train.empty()) return;
  tokens.test = path("test_tokens");
  data.Word<std::string>("tokens_type", {{"uint16", "uint16"}, {"uint32", "uint32"}}, &tokens.type);
  files->train_targets = path("train_labels");
  files->test_targets = path("test_labels");
  tokens.train_lengths = path("train_lengths");
  tokens.test_lengths = path("test_lengths");
  tokens.train_types = path("train_token_types");
  tokens.test_types = path("test_token_types");
  const bool labelled = !files->train_targets.empty();
  for (const std::string key : {"test_labels", "train_lengths", "test_lengths", "train_token_types",
                                "test_token_types", "ignore_label"}) {
    if (labelled || !data.Has(key)) continue;
    data.Refuse(key, "data.train_labels is missing, and only sequences with labels use this key");
  }
  if (labelled && data.Has("tokens_type")) {
    data.Refuse(
        "tokens_type",
        "is for one stream of tokens; sequences with labels are NPY, which states its type");
  }
  // The test samples must have the same files as the training samples.
  for (const std::string key : {"labels", "lengths", "token_types"}) {
    const std::string train = "train_" + key, test = "test_" + key;
    if (tokens.test.empty() ? data.Has(test) : data.Has(test) != data.Has(train)) {
      const std::string missing = tokens.test.empty() ? "test_tokens"
                                  : data.Has(test)    ? train
                                                      : test;
      data.Refuse(data.Has(test) ? test : train, fmt::format("data.{} is missing", missing));
    }
  }
}

void ReadIgnoreLabel(const Section& data, std::optional<std::int64_t>* label) {
  if (!data.Has("ignore_label")) return;
  std::int64_t value = 0;
  data.Integer("ignore_label", INT32_MIN, INT32_MAX, &value);
  *label = value;
}

void ReadImageKeys(const Section& data, ImageData* images) {
  data.Word<std::string>("layout", {{"CHW", "CHW"}, {"HWC", "HWC"}}, &images->layout);
  constexpr double kMost = 1e30;
  constexpr double kLeast = 1e-30;
  data.Numbers("mean", kMaxChannels, -kMost, kMost, &images->mean);
  data.Numbers("std", kMaxChannels, kLeast, kMost, &images->deviation);
  data.Integer("crop_padding", 0, kMaxCropPadding, &images->crop_padding);
  data.Flag("flip", &images->flip);
}

}  // namespace acan
