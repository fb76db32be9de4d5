#include "acan/manager/vocabulary.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/job.h"
#include "acan/manager/json_depth.h"
#include "acan/manager/text_file.h"
#include "nlohmann/json.hpp"
#include "tokenizer.h"
#include "utf8.h"

namespace acan {
namespace {

using nlohmann::json;

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
      numbers_[texts_[i]] = static_cast<std::int32_t>(i);
    }
  }

  std::int64_t size() const override { return std::ssize(texts_); }

  std::vector<std::int32_t> TokensOf(std::string_view text,
                                     const std::string& name) const override {
    std::vector<std::int32_t> tokens;
    ForEachCharacter(name, text, [&](char32_t character, std::size_t at) {
      const auto found = numbers_.find(ToUtf8(character));
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
  std::map<std::string, std::int32_t> numbers_;
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

std::shared_ptr<const Vocabulary> ReadPieces(const json& value, const std::string& path) {
  const auto text = [&](const char* key) {
    const auto found = value.find(key);
    if (found == value.end() || !found->is_string()) {
      throw UsageError(fmt::format("{}: '{}' must be a string", path, key));
    }
    return found->get<std::string>();
  };
  const std::string model = text("model"), expected = text("model_sha256");
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

}  // namespace

std::shared_ptr<const Vocabulary> ReadVocabulary(const std::string& path) {
  return ParseVocabulary(ReadTextFile(path, kMaxVocabularyBytes, "a vocabulary"), path);
}

std::shared_ptr<const Vocabulary> ParseVocabulary(const std::string& text,
                                                  const std::string& path) {
  const json value = ParseJsonOrDiscard(text);
  if (!value.is_object()) throw UsageError(fmt::format("{}: is not a JSON object", path));
  if (IsDeeperThan(value, kMaxJsonDepth)) {
    throw UsageError(
        fmt::format("{}: nests arrays and objects more than {} deep, which no vocabulary does",
                    path, kMaxJsonDepth));
  }
  const auto tokenizer = value.find("tokenizer");
  if (tokenizer != value.end() && *tokenizer == kCharacters) return ReadCharacters(value, path);
  if (tokenizer != value.end() && *tokenizer == kBytes) return std::make_shared<Bytes>();
  if (tokenizer != value.end() && *tokenizer == "sentencepiece") return ReadPieces(value, path);
  throw UsageError(
      fmt::format("{}: 'tokenizer' must be \"characters\", \"bytes\" or \"sentencepiece\"", path));
}

}  // namespace acan
