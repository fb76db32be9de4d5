#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "acan/core/error.h"
#include "acan/manager/input_file.h"
#include "tokenizer.h"

#ifdef ACAN_SENTENCEPIECE
#include <sentencepiece_processor.h>
#endif

namespace acan {

#ifdef ACAN_SENTENCEPIECE

namespace {

// The mark of a word's beginning, U+2581, in UTF-8.
constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

class PieceModel final : public Pieces {
 public:
  explicit PieceModel(std::string path) : path_(std::move(path)) {
    RequirePiecesLength(InputFile(path_, Packing::kNone));  // throws if it cannot be read
    const auto loaded = model_.Load(path_);
    if (!loaded.ok()) {
      throw UsageError(
          fmt::format("{}: is not a SentencePiece model: {}", path_, loaded.ToString()));
    }
  }

  std::int64_t size() const override { return model_.GetPieceSize(); }

  std::string UnknownText(const std::vector<std::int32_t>& tokens,
                          const std::string& name) const override {
    const auto unknown = std::ranges::count(tokens, model_.unk_id());
    if (unknown == 0) return "";
    return fmt::format("{}: {} of {} tokens are <unk>, because {} lacks characters of the text",
                       name, unknown, tokens.size(), path_);
  }

  std::vector<std::int32_t> TokensOf(std::string_view text) const override {
    std::vector<int> tokens;
    const auto encoded = model_.Encode(text, &tokens);
    if (!encoded.ok()) {
      throw UsageError(fmt::format("{}: cannot encode the text: {}", path_, encoded.ToString()));
    }
    return {tokens.begin(), tokens.end()};
  }

  std::string TextOf(std::int32_t token) const override {
    if (model_.IsControl(token)) return "";
    if (model_.IsUnknown(token)) return "\xef\xbf\xbd";  // U+FFFD
    const std::string& text = model_.IdToPiece(token);
    if (model_.IsByte(token)) {  // "<0x0A>"
      constexpr int kHexadecimal = 16;
      return {static_cast<char>(std::stoi(text.substr(3, 2), nullptr, kHexadecimal))};
    }
    std::string spaced;
    std::string_view rest = text;
    for (std::size_t at = 0; (at = rest.find(kSpaceMark)) != std::string_view::npos;) {
      spaced.append(rest.substr(0, at)).push_back(' ');
      rest.remove_prefix(at + kSpaceMark.size());
    }
    return spaced.append(rest);
  }

 private:
  std::string path_;
  sentencepiece::SentencePieceProcessor model_;
};

}  // namespace

std::unique_ptr<const Pieces> OpenSentencePiece(const std::string& path) {
  return std::make_unique<PieceModel>(path);
}

#else

std::unique_ptr<const Pieces> OpenSentencePiece(const std::string& path) {
  throw UsageError(fmt::format(
      "{}: this program was built without SentencePiece; build it where its headers are "
      "(Debian: libsentencepiece-dev), or choose another data.tokenizer",
      path));
}

#endif

}  // namespace acan
