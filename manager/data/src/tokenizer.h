// Text to tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "acan/manager/job.h"
#include "acan/manager/stored_array.h"

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

// A SentencePiece model's tokens of `text`. Throws Error (usage) if `path` is no such model, or if
// the program was built without SentencePiece. `size` is that of its vocabulary.
std::vector<std::int32_t> SentencePieceTokens(const std::string& path, std::string_view text,
                                              std::int64_t* size);

}  // namespace acan
