// Vocabulary: converts text to tokens and tokens to text, as a run's vocabulary.json defines them.
// Immutable; for any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace acan {

inline constexpr std::int64_t kMaxVocabularyBytes = std::int64_t{1} << 26;  // of the file

class Vocabulary {
 public:
  virtual ~Vocabulary() = default;

  virtual std::int64_t size() const = 0;
  // Throws Error (usage) for text that is not UTF-8, and for characters that the tokenizer cannot
  // represent; the message calls the text `name` ("--prompt").
  virtual std::vector<std::int32_t> TokensOf(std::string_view text,
                                             const std::string& name) const = 0;
  // A warning that `tokens`, those of the text `name`, do not have all of its characters, because
  // the tokenizer lacks some; empty if they do.
  virtual std::string UnknownText(const std::vector<std::int32_t>& /*tokens*/,
                                  const std::string& /*name*/) const {
    return "";
  }
  // The bytes that a token adds to a text; control tokens add none. The bytes may be part of a
  // character. Throws Error (usage) for a token that is not in [0, size).
  virtual std::string TextOf(std::int32_t token) const = 0;

 protected:
  Vocabulary() = default;
  Vocabulary(const Vocabulary&) = default;
  Vocabulary& operator=(const Vocabulary&) = default;
};

// Reads a vocabulary.json. Throws Error (usage) that names the file and the problem; for
// SentencePiece also if the model that it names is missing or differs from the one used in
// training.
std::shared_ptr<const Vocabulary> ReadVocabulary(const std::string& path);
// Parses the text of such a file (Data::vocabulary); messages call it `path`.
std::shared_ptr<const Vocabulary> ParseVocabulary(const std::string& text, const std::string& path);

// A vocabulary.json that has not been parsed.
struct VocabularyFile {
  std::string path;
  std::string text;
};

// The one in `folder`, if there is one. Throws Unreadable, and Error (usage) for what is no file.
std::optional<VocabularyFile> FindVocabulary(const std::string& folder);
// The one of the run that wrote the file `weights`. It lies beside model.safetensors, and beside
// the folder of snapshots. Throws as FindVocabulary.
std::optional<VocabularyFile> VocabularyOfWeights(const std::string& weights);
// Whether both make the same tokens of every text. Opens no SentencePiece model, but throws Error
// (usage) for anything that is no vocabulary.
bool HaveSameTokens(const VocabularyFile& one, const VocabularyFile& other);

}  // namespace acan
