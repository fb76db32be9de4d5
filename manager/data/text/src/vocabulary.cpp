#include "acan/manager/vocabulary.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/job.h"
#include "acan/manager/json_depth.h"
#include "acan/manager/output_names.h"
#include "acan/manager/text_file.h"
#include "nlohmann/json.hpp"
#include "tokenizer.h"
#include "utf8.h"

namespace acan {
namespace {

using nlohmann::json;

namespace fs = std::filesystem;

constexpr const char* kSentencePiece = "sentencepiece";
constexpr std::int64_t kByteValues = 256;
constexpr std::size_t kMaxTokens = std::size_t{0x110000};  // the number of code points

void RequireToken(std::int32_t token, std::int64_t size) {
  if (token >= 0 && token < size) return;
  throw UsageError(
      fmt::format("token {} is not in the vocabulary, which has 0 to {}", token, size - 1));
}

class Characters final : public Vocabulary {
 public:
  // REQUIRES: each text is one character, and all differ.
  explicit Characters(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      std::size_t at = 0;
      numbers_[*NextCharacter(texts_[i], &at)] = static_cast<std::int32_t>(i);
    }
  }

  std::int64_t size() const override { return std::ssize(texts_); }

  std::vector<std::int32_t> TokensOf(std::string_view text,
                                     const std::string& name) const override {
    std::vector<std::int32_t> tokens;
    ForEachCharacter(name, text, [&](char32_t character, std::size_t at) {
      const auto found = numbers_.find(character);
      if (found == numbers_.end()) {
        throw UsageError(fmt::format(
            "{}, {}: has the character '{}' (U+{:04X}), which the model's vocabulary of {} "
            "characters lacks",
            name, LineOf(text, at), ToUtf8(character), static_cast<std::uint32_t>(character),
            texts_.size()));
      }
      tokens.push_back(found->second);
    });
    return tokens;
  }

  std::string TextOf(std::int32_t token) const override {
    RequireToken(token, size());
    return texts_[static_cast<std::size_t>(token)];
  }

 private:
  std::vector<std::string> texts_;
  std::map<char32_t, std::int32_t> numbers_;
};

class Bytes final : public Vocabulary {
 public:
  std::int64_t size() const override { return kByteValues; }
  std::vector<std::int32_t> TokensOf(std::string_view text, const std::string&) const override {
    std::vector<std::int32_t> tokens;
    for (const char byte : text) tokens.push_back(static_cast<std::uint8_t>(byte));
    return tokens;
  }
  std::string TextOf(std::int32_t token) const override {
    RequireToken(token, size());
    return {static_cast<char>(token)};
  }
};

class SentencePieces final : public Vocabulary {
 public:
  explicit SentencePieces(std::unique_ptr<const Pieces> pieces) : pieces_(std::move(pieces)) {}

  std::int64_t size() const override { return pieces_->size(); }
  std::vector<std::int32_t> TokensOf(std::string_view text,
                                     const std::string& name) const override {
    ForEachCharacter(name, text, [](char32_t, std::size_t) {});
    return pieces_->TokensOf(text);
  }
  std::string UnknownText(const std::vector<std::int32_t>& tokens,
                          const std::string& name) const override {
    return pieces_->UnknownText(tokens, name);
  }
  std::string TextOf(std::int32_t token) const override {
    RequireToken(token, size());
    return pieces_->TextOf(token);
  }

 private:
  std::unique_ptr<const Pieces> pieces_;
};

std::shared_ptr<const Vocabulary> ReadCharacters(const json& value, const std::string& path) {
  const auto tokens = value.find("tokens");
  if (tokens == value.end() || !tokens->is_array() || tokens->empty() ||
      tokens->size() > kMaxTokens) {
    throw UsageError(fmt::format("{}: 'tokens' must be an array of characters", path));
  }
  std::vector<std::string> texts;
  std::map<std::string, std::size_t> known;
  for (const json& token : *tokens) {
    const std::size_t index = texts.size();
    const std::string text = token.is_string() ? token.get<std::string>() : "";
    std::size_t end = 0;
    if (text.empty() || !NextCharacter(text, &end) || end != text.size()) {
      throw UsageError(fmt::format("{}: entry {} of 'tokens' is {}; expected one character", path,
                                   index, JsonTextReplacing(token)));
    }
    const auto [other, is_new] = known.emplace(text, index);
    if (!is_new) {
      throw UsageError(fmt::format("{}: entries {} and {} of 'tokens' are the same character {}",
                                   path, other->second, index, JsonText(token)));
    }
    texts.push_back(text);
  }
  return std::make_shared<Characters>(std::move(texts));
}

std::string StringIn(const json& value, const char* key, const std::string& path) {
  const auto found = value.find(key);
  if (found == value.end() || !found->is_string()) {
    throw UsageError(fmt::format("{}: '{}' must be a string", path, key));
  }
  return found->get<std::string>();
}

std::shared_ptr<const Vocabulary> ReadPieces(const json& value, const std::string& path) {
  const std::string model = StringIn(value, "model", path);
  const std::string expected = StringIn(value, "model_sha256", path);
  if (const auto problem = PathProblem(model)) {
    throw UsageError(fmt::format("{}: 'model': {}", path, *problem));
  }
  const std::string found = HashOfFile(model);
  if (found != expected) {
    throw UsageError(
        fmt::format("{}: {} is not the SentencePiece model of the training: its SHA-256 is {}, "
                    "expected {}",
                    path, model, found, expected));
  }
  return std::make_shared<SentencePieces>(OpenSentencePiece(model));
}

// The fields of a vocabulary.json; "tokenizer" is one that exists.
json ParseFields(const std::string& text, const std::string& path) {
  json value = ParseJsonOrDiscard(text);
  if (!value.is_object()) throw UsageError(fmt::format("{}: is not a JSON object", path));
  if (IsDeeperThan(value, kMaxJsonDepth)) {
    throw UsageError(
        fmt::format("{}: nests arrays and objects more than {} deep, which no vocabulary does",
                    path, kMaxJsonDepth));
  }
  const auto tokenizer = value.find("tokenizer");
  if (tokenizer == value.end() ||
      (*tokenizer != kCharacters && *tokenizer != kBytes && *tokenizer != kSentencePiece)) {
    throw UsageError(fmt::format(
        "{}: 'tokenizer' must be \"characters\", \"bytes\" or \"sentencepiece\"", path));
  }
  return value;
}

}  // namespace

std::shared_ptr<const Vocabulary> ReadVocabulary(const std::string& path) {
  return ParseVocabulary(ReadTextFile(path, kMaxVocabularyBytes, "a vocabulary"), path);
}

std::shared_ptr<const Vocabulary> ParseVocabulary(const std::string& text,
                                                  const std::string& path) {
  const json value = ParseFields(text, path);
  if (value["tokenizer"] == kCharacters) return ReadCharacters(value, path);
  if (value["tokenizer"] == kBytes) return std::make_shared<Bytes>();
  return ReadPieces(value, path);
}

std::optional<VocabularyFile> FindVocabulary(const std::string& folder) {
  const std::string path = (fs::path(folder) / kVocabularyName).string();
  std::error_code error;
  if (!fs::exists(path, error) && !error) return std::nullopt;
  return VocabularyFile{path, ReadTextFile(path, kMaxVocabularyBytes, "a vocabulary")};
}

std::optional<VocabularyFile> VocabularyOfWeights(const std::string& weights) {
  const std::string path = FileOfWeights(weights, kVocabularyName);
  if (path.empty()) return std::nullopt;
  return FindVocabulary(fs::path(path).parent_path().string());
}

bool HaveSameTokens(const VocabularyFile& one, const VocabularyFile& other) {
  const json fields[] = {ParseFields(one.text, one.path), ParseFields(other.text, other.path)};
  if (fields[0]["tokenizer"] != fields[1]["tokenizer"]) return false;
  if (fields[0]["tokenizer"] == kBytes) return true;
  const char* meaning = fields[0]["tokenizer"] == kCharacters ? "tokens" : "model_sha256";
  return fields[0].value(meaning, json()) == fields[1].value(meaning, json());
}

void RequireTokenizer(const TextData& data, const VocabularyFile& given) {
  const json fields = ParseFields(given.text, given.path);
  const bool of_pieces = data.tokenizer != kCharacters && data.tokenizer != kBytes;
  const std::string found = fields["tokenizer"];
  if (found != (of_pieces ? kSentencePiece : data.tokenizer)) {
    throw UsageError(fmt::format(
        "data.tokenizer = \"{}\", but {} says that the weights' tokens are those of \"{}\": set "
        "data.tokenizer to {}, or train new weights (without model.initial_weights)",
        data.tokenizer, given.path, found,
        found == kSentencePiece ? "that SentencePiece model" : fmt::format("\"{}\"", found)));
  }
  if (!of_pieces) return;
  const std::string expected = StringIn(fields, "model_sha256", given.path);
  const std::string sha256 = HashOfFile(data.tokenizer);
  if (sha256 == expected) return;
  throw UsageError(fmt::format(
      "data.tokenizer = \"{}\": its SHA-256 is {}, but {} says that the weights' tokens "
      "are those of the SentencePiece model with the SHA-256 {}: name that model, or "
      "train new weights (without model.initial_weights)",
      data.tokenizer, sha256, given.path, expected));
}

}  // namespace acan
