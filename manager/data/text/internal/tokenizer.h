// Text to tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "acan/manager/job.h"
#include "acan/manager/stored_array.h"
#include "acan/manager/vocabulary.h"

namespace acan {

struct TokenizedText {
  StoredArray train;
  std::optional<StoredArray> test;
  std::int64_t vocabulary_size = 0;
  std::string vocabulary;  // what the numbers of tokens mean, as JSON
};

// Of `text`, the first part is for training, the rest for testing; or of train_text and test_text.
// Throws Error (usage) for text that is not UTF-8, for characters of a test file that the training
// file lacks, and for a SentencePiece model that cannot be used.
TokenizedText TokenizeText(const TextData& data);

// The part for testing alone, in the numbers that `vocabulary` gives its tokens: those of training,
// whatever its text and its tokenizer's file are by now. Of train_text nothing is read. REQUIRES:
// there is text for testing, and `vocabulary` is of data.tokenizer. Throws as TokenizeText.
StoredArray TokenizeTestText(const TextData& data, const Vocabulary& vocabulary);

// A SentencePiece model.
class Pieces {
 public:
  virtual ~Pieces() = default;
  virtual std::int64_t size() const = 0;
  // Throws Error (usage) if the model cannot encode the text.
  virtual std::vector<std::int32_t> TokensOf(std::string_view text) const = 0;
  // As Vocabulary::TextOf. REQUIRES: 0 <= token < size.
  virtual std::string TextOf(std::int32_t token) const = 0;
};
// Throws Error (usage) if `path` is no such model, or if the program was built without
// SentencePiece.
std::unique_ptr<const Pieces> OpenSentencePiece(const std::string& path);

// Of the file's bytes, as vocabulary.json has it. Throws Error (usage) if it cannot be read.
std::string HashOfFile(const std::string& path);

}  // namespace acan
