// Converts text to tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "acan/manager/input_file.h"
#include "acan/manager/job.h"
#include "acan/manager/stored_array.h"
#include "acan/manager/vocabulary.h"

namespace acan {

struct TokenizedText {
  StoredArray train;
  std::optional<StoredArray> test;
  std::int64_t vocabulary_size = 0;
  std::string vocabulary;  // the meaning of the token numbers, as JSON
  // Messages to the user about text that the tokens do not have.
  std::vector<std::string> warnings = {};
};

// Tokenizes `text`, whose first part is for training and the rest for testing, or train_text and
// test_text. The numbers of characters are those of `given`; if it is null, the characters of the
// training text are numbered. Throws Error (usage) for text that is not UTF-8, for characters that
// the vocabulary lacks, for a SentencePiece model that cannot be used, and as RequireTokenizer.
TokenizedText TokenizeText(const TextData& data, const VocabularyFile* given);

// Throws Error (usage) if `given` is of another tokenizer than data.tokenizer.
void RequireTokenizer(const TextData& data, const VocabularyFile& given);

// Tokenizes only the test part, with the token numbers of `vocabulary`, which are those of training
// even if the training text or the tokenizer's file has changed since. Does not read train_text.
// Adds to `warnings` as TokenizedText has them. REQUIRES: there is text for testing (test_text, or
// text with a test_fraction above 0), and `vocabulary` is of data.tokenizer. Throws as
// TokenizeText.
StoredArray TokenizeTestText(const TextData& data, const Vocabulary& vocabulary,
                             std::vector<std::string>* warnings);

// A SentencePiece model.
class Pieces {
 public:
  virtual ~Pieces() = default;
  virtual std::int64_t size() const = 0;
  // As Vocabulary::UnknownText.
  virtual std::string UnknownText(const std::vector<std::int32_t>& tokens,
                                  const std::string& name) const = 0;
  // Throws Error (usage) if the model cannot encode the text.
  virtual std::vector<std::int32_t> TokensOf(std::string_view text) const = 0;
  // As Vocabulary::TextOf. REQUIRES: 0 <= token < size.
  virtual std::string TextOf(std::int32_t token) const = 0;
};
// Throws Error (usage) if `path` is not a SentencePiece model, or if the program was built without
// SentencePiece.
std::unique_ptr<const Pieces> OpenSentencePiece(const std::string& path);

// Throws Error (usage) if the file, which must be opened with Packing::kNone, is longer than a
// model may be: SentencePiece reads the whole of it into memory.
void RequirePiecesLength(const InputFile& file);

// The hash of a model's bytes, as in vocabulary.json. Throws Error (usage) if it cannot be read or
// is longer than a model may be.
std::string HashOfFile(const std::string& path);

}  // namespace acan
