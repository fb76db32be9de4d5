#include "tokenizer.h"

#include <fmt/format.h>

#include <cassert>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/sha256.h"
#include "nlohmann/json.hpp"
#include "utf8.h"

namespace acan {
namespace {

// For text that is read into memory.
constexpr std::int64_t kMaxTextBytes = std::int64_t{1} << 34;
// SentencePiece processes a whole text at once and needs a multiple of its size in memory.
constexpr std::size_t kMaxSentencePieceBytes = std::size_t{1} << 28;
constexpr std::int64_t kMaxPiecesBytes = std::int64_t{1} << 28;  // of the file of a model

std::string ReadText(const std::string& path) {
  InputFile file(path);
  constexpr std::size_t kChunkBytes = 1 << 20;
  std::string text;
  for (;;) {
    const std::size_t had = text.size();
    text.resize(had + kChunkBytes);
    const std::size_t got =
        file.Read({reinterpret_cast<std::uint8_t*>(text.data()) + had, kChunkBytes});
    text.resize(had + got);
    if (static_cast<std::int64_t>(text.size()) > kMaxTextBytes) {
      throw UsageError(
          fmt::format("{}: is longer than the limit of {} bytes of text; convert it to a file of "
                      "tokens (data.train_tokens)",
                      path, kMaxTextBytes));
    }
    if (got < kChunkBytes) break;
  }
  if (text.empty()) throw UsageError(fmt::format("{}: the file is empty", path));
  return text;
}

struct Text {
  std::string path;
  std::string bytes;
};

template <typename Number>
StoredArray InMemory(const std::string& path, const std::vector<std::int32_t>& tokens,
                     NumberType type) {
  std::vector<std::uint8_t> bytes(tokens.size() * sizeof(Number));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto token = static_cast<Number>(tokens[i]);
    std::memcpy(bytes.data() + i * sizeof token, &token, sizeof token);
  }
  return {path, {static_cast<std::int64_t>(tokens.size())}, type, std::move(bytes)};
}

// Packs the tokens into the smallest type that holds the vocabulary.
StoredArray Packed(const std::string& path, const std::vector<std::int32_t>& tokens,
                   std::int64_t vocabulary_size) {
  if (tokens.empty()) throw UsageError(fmt::format("{}: has no tokens", path));
  if (vocabulary_size <= 1 << 8) {
    return InMemory<std::uint8_t>(path, tokens, NumberType::kUint8);
  }
  if (vocabulary_size <= 1 << 16) {
    return InMemory<std::uint16_t>(path, tokens, NumberType::kUint16);
  }
  return InMemory<std::int32_t>(path, tokens, NumberType::kInt32);
}

// How many of `count` items are for training.
std::int64_t TrainCount(std::int64_t count, double test_fraction) {
  return static_cast<std::int64_t>(std::floor(static_cast<double>(count) * (1 - test_fraction)));
}

[[noreturn]] void NothingLeft(const TextData& data) {
  throw UsageError(
      fmt::format("{}: data.test_fraction = {} leaves none of it for training or none for testing",
                  data.text, data.test_fraction));
}

// The texts for training and for testing; the latter is empty if there is none. A single text is
// split between two characters.
std::pair<Text, Text> ReadTexts(const TextData& data) {
  if (data.text.empty()) {
    std::pair<Text, Text> texts{{data.train_text, ReadText(data.train_text)}, {}};
    if (!data.test_text.empty()) texts.second = {data.test_text, ReadText(data.test_text)};
    return texts;
  }
  Text train{data.text, ReadText(data.text)};
  if (data.test_fraction == 0) return {std::move(train), Text{}};
  std::int64_t characters = 0;
  ForEachCharacter(train.path, train.bytes, [&](char32_t, std::size_t) { ++characters; });
  std::int64_t left = TrainCount(characters, data.test_fraction);
  if (left == 0 || left == characters) NothingLeft(data);
  std::size_t cut = 0;
  while (left-- > 0) static_cast<void>(NextCharacter(train.bytes, &cut));
  Text test{data.text, train.bytes.substr(cut)};
  train.bytes.resize(cut);
  return {std::move(train), std::move(test)};
}

Text ReadTestText(const TextData& data) {
  if (data.text.empty()) return {data.test_text, ReadText(data.test_text)};
  return ReadTexts(data).second;
}

// ---- characters --------------------------------------------------------------------------------

TokenizedText CharacterTokens(const TextData& data) {
  const auto [train, test] = ReadTexts(data);
  std::map<char32_t, std::int32_t> numbers;
  const auto add = [&](char32_t character, std::size_t) { numbers.emplace(character, 0); };
  ForEachCharacter(train.path, train.bytes, add);
  // The two parts of one text share a vocabulary, because their characters differ only by chance.
  if (!data.text.empty()) ForEachCharacter(test.path, test.bytes, add);
  nlohmann::json tokens = nlohmann::json::array();
  for (auto& [character, number] : numbers) {
    number = static_cast<std::int32_t>(tokens.size());
    tokens.push_back(ToUtf8(character));
  }
  const auto size = static_cast<std::int64_t>(numbers.size());
  const auto encode = [&numbers, size](const Text& text) {
    std::vector<std::int32_t> all;
    all.reserve(text.bytes.size());
    ForEachCharacter(text.path, text.bytes, [&](char32_t character, std::size_t at) {
      const auto found = numbers.find(character);
      if (found == numbers.end()) {
        throw UsageError(
            fmt::format("{}, {}: has the character '{}' (U+{:04X}), which the training "
                        "text lacks",
                        text.path, LineOf(text.bytes, at), ToUtf8(character),
                        static_cast<std::uint32_t>(character)));
      }
      all.push_back(found->second);
    });
    return Packed(text.path, all, size);
  };
  TokenizedText result{encode(train),
                       {},
                       size,
                       JsonText({{"tokenizer", "characters"}, {"tokens", tokens}}, 1) + "\n"};
  if (!test.bytes.empty()) result.test = encode(test);
  return result;
}

// The characters have the numbers of `given`, which the weights know.
TokenizedText KnownCharacterTokens(const TextData& data, const VocabularyFile& given) {
  const std::shared_ptr<const Vocabulary> vocabulary = ParseVocabulary(given.text, given.path);
  const auto tokens = [&](const Text& text) {
    ForEachCharacter(text.path, text.bytes, [](char32_t, std::size_t) {});
    try {
      return vocabulary->TokensOf(text.bytes, text.path);
    } catch (const Error& error) {
      throw Error(error.kind(),
                  fmt::format("{}; these characters, in {}, are all that the weights know: remove "
                              "others from the text, or train new weights (without "
                              "model.initial_weights)",
                              error.what(), given.path));
    }
  };
  const auto [train, test] = ReadTexts(data);
  TokenizedText result{
      Packed(train.path, tokens(train), vocabulary->size()), {}, vocabulary->size(), given.text};
  if (!test.bytes.empty()) result.test = Packed(test.path, tokens(test), vocabulary->size());
  return result;
}

// ---- bytes -------------------------------------------------------------------------------------

// The bytes stay in the file, whatever its length.
TokenizedText ByteTokens(const TextData& data) {
  constexpr std::int64_t kBytes = 256;
  const std::string vocabulary = JsonText({{"tokenizer", "bytes"}, {"size", kBytes}}, 1) + "\n";
  const StoredArray all =
      OpenRaw(data.text.empty() ? data.train_text : data.text, NumberType::kUint8);
  TokenizedText result{all, {}, kBytes, vocabulary};
  if (data.text.empty()) {
    if (!data.test_text.empty()) result.test = OpenRaw(data.test_text, NumberType::kUint8);
    return result;
  }
  if (data.test_fraction == 0) return result;
  const std::int64_t train = TrainCount(all.count(), data.test_fraction);
  if (train == 0 || train == all.count()) NothingLeft(data);
  result.train = all.Part(0, train);
  result.test = all.Part(train, all.count() - train);
  return result;
}

// ---- SentencePiece -----------------------------------------------------------------------------

void RequireSentencePieceLength(const Text& text) {
  if (text.bytes.size() <= kMaxSentencePieceBytes) return;
  throw UsageError(
      fmt::format("{}: is longer than the limit of {} bytes for SentencePiece; convert it to a "
                  "file of tokens (data.train_tokens)",
                  text.path, kMaxSentencePieceBytes));
}

TokenizedText SentencePieceTokens(const TextData& data) {
  const auto [train, test] = ReadTexts(data);
  const std::unique_ptr<const Pieces> pieces = OpenSentencePiece(data.tokenizer);
  const std::int64_t size = pieces->size();
  std::vector<std::string> warnings;
  const auto encode = [&](const Text& text) {
    RequireSentencePieceLength(text);
    ForEachCharacter(text.path, text.bytes, [](char32_t, std::size_t) {});
    const std::vector<std::int32_t> tokens = pieces->TokensOf(text.bytes);
    std::string unknown = pieces->UnknownText(tokens, text.path);
    if (!unknown.empty()) warnings.push_back(std::move(unknown));
    return Packed(text.path, tokens, size);
  };
  TokenizedText result{encode(train), {}, 0, ""};
  if (!test.bytes.empty()) result.test = encode(test);
  result.warnings = std::move(warnings);
  result.vocabulary_size = size;
  result.vocabulary = JsonText({{"tokenizer", "sentencepiece"},
                                {"model", data.tokenizer},
                                {"model_sha256", HashOfFile(data.tokenizer)},
                                {"size", size}},
                               1) +
                      "\n";
  return result;
}

}  // namespace

void RequirePiecesLength(const InputFile& file) {
  if (file.most_bytes() <= kMaxPiecesBytes) return;
  throw UsageError(fmt::format("{}: is longer than the limit of {} bytes for a SentencePiece model",
                               file.path(), kMaxPiecesBytes));
}

std::string HashOfFile(const std::string& path) {
  constexpr std::size_t kBlockBytes = 1 << 20;
  InputFile file(path, Packing::kNone);
  RequirePiecesLength(file);
  Sha256 hash;
  std::vector<std::uint8_t> block(kBlockBytes);
  for (;;) {
    const std::size_t got = file.Read(block);
    hash.Add(block.data(), got);
    if (got < block.size()) return hash.Hex();
  }
}

TokenizedText TokenizeText(const TextData& data, const VocabularyFile* given) {
  if (given != nullptr) RequireTokenizer(data, *given);
  if (data.tokenizer == kCharacters) {
    return given != nullptr ? KnownCharacterTokens(data, *given) : CharacterTokens(data);
  }
  if (data.tokenizer == kBytes) return ByteTokens(data);
  return SentencePieceTokens(data);
}

StoredArray TokenizeTestText(const TextData& data, const Vocabulary& vocabulary,
                             std::vector<std::string>* warnings) {
  assert(data.text.empty() ? !data.test_text.empty() : data.test_fraction > 0);
  if (data.tokenizer == kBytes) {  // the bytes stay in the file
    return data.text.empty() ? OpenRaw(data.test_text, NumberType::kUint8)
                             : std::move(*ByteTokens(data).test);
  }
  const Text text = ReadTestText(data);
  if (data.tokenizer != kCharacters) RequireSentencePieceLength(text);
  const std::vector<std::int32_t> tokens = vocabulary.TokensOf(text.bytes, text.path);
  std::string unknown = vocabulary.UnknownText(tokens, text.path);
  if (!unknown.empty()) warnings->push_back(std::move(unknown));
  return Packed(text.path, tokens, vocabulary.size());
}

}  // namespace acan
