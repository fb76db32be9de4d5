#include <fmt/format.h>

#include "acan/core/error.h"
#include "tokenizer.h"

#ifdef ACAN_SENTENCEPIECE
#include <sentencepiece_processor.h>
#endif

namespace acan {

#ifdef ACAN_SENTENCEPIECE

std::vector<std::int32_t> SentencePieceTokens(const std::string& path, std::string_view text,
                                              std::int64_t* size) {
  sentencepiece::SentencePieceProcessor model;
  const auto loaded = model.Load(path);
  if (!loaded.ok()) {
    throw UsageError(fmt::format("{}: is no SentencePiece model: {}", path, loaded.ToString()));
  }
  *size = model.GetPieceSize();
  std::vector<int> tokens;
  const auto encoded = model.Encode(text, &tokens);
  if (!encoded.ok()) {
    throw UsageError(fmt::format("{}: cannot encode the text: {}", path, encoded.ToString()));
  }
  return {tokens.begin(), tokens.end()};
}

#else

std::vector<std::int32_t> SentencePieceTokens(const std::string& path, std::string_view,
                                              std::int64_t*) {
  throw UsageError(fmt::format(
      "{}: this program was built without SentencePiece; build it where its headers are "
      "(Debian: libsentencepiece-dev), or choose another data.tokenizer",
      path));
}

#endif

}  // namespace acan
