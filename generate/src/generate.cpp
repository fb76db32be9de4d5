#include "acan/generate/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "acan/core/error.h"

namespace acan {
namespace {

void Check(const Decoder& decoder, const std::vector<std::int32_t>& text) {
  if (text.empty()) throw UsageError("the prompt is empty: it needs at least one token");
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] >= 0 && text[i] < decoder.vocabulary_size()) continue;
    throw UsageError(
        fmt::format("the prompt's token {} is {}, but the model has {}: expected 0 to {}", i,
                    text[i], decoder.vocabulary_size(), decoder.vocabulary_size() - 1));
  }
}

}  // namespace

void Generate(Decoder& decoder, std::vector<std::int32_t> text, std::int64_t count,
              const Sampling& sampling, const std::function<bool(std::int32_t token)>& take) {
  Check(decoder, text);
  const auto positions = static_cast<std::size_t>(decoder.positions());
  decoder.Clear();
  for (std::int64_t i = 0; i < count; ++i) {
    std::span<const std::int32_t> unread(text);
    if (i > 0) unread = unread.last(1);
    if (decoder.length() + std::ssize(unread) > decoder.positions()) {
      decoder.Clear();
      unread = std::span<const std::int32_t>(text);
      unread = unread.last(std::min(unread.size(), positions));
    }
    const std::vector<float> outputs = decoder.Read(unread);
    text.push_back(ChooseToken(outputs, sampling, std::ssize(text)));
    if (!take(text.back())) return;
  }
}

}  // namespace acan
