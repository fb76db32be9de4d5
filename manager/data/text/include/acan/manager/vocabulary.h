// Vocabulary: what a run's vocabulary.json says of its tokens, to make tokens of text and text of
// tokens. Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace acan {

inline constexpr std::int64_t kMaxVocabularyBytes = std::int64_t{1} << 26;  // of the file

class Vocabulary {
 public:
  virtual ~Vocabulary() = default;

  virtual std::int64_t size() const = 0;
  // Throws Error (usage) for text that is not UTF-8, and for characters that no token is, where
  // the tokenizer has none for them; `name` is what the sentence calls the text ("--prompt").
  virtual std::vector<std::int32_t> TokensOf(std::string_view text,
                                             const std::string& name) const = 0;
  // The bytes that a token adds to a text; of a control token none. Tokens of bytes may be parts of
  // a character. Throws Error (usage) for a token that is not in [0, size).
  virtual std::string TextOf(std::int32_t token) const = 0;

 protected:
  Vocabulary() = default;
  Vocabulary(const Vocabulary&) = default;
  Vocabulary& operator=(const Vocabulary&) = default;
};

// Reads a vocabulary.json. Throws Error (usage) that names the file and what is wrong with it; for
// SentencePiece also if the model that it names is not there, or has other bytes than in training.
std::shared_ptr<const Vocabulary> ReadVocabulary(const std::string& path);
// The same of such a file's text (Data::vocabulary), which sentences call `path`.
std::shared_ptr<const Vocabulary> ParseVocabulary(const std::string& text, const std::string& path);

}  // namespace acan
