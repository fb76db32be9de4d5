// Generate: continues a text given as tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "acan/generate/decoder.h"
#include "acan/generate/sampler.h"

namespace acan {

// Appends at most `count` tokens to `text`, and calls `take` with each as soon as it is chosen; if
// `take` returns false, the text ends there. A token depends on the last Decoder::positions tokens
// before it. Once a text is longer than that, each new token needs a full pass over the last ones,
// which then have the positions 0, 1, ..., like nanoGPT's cropped context. Throws Error (usage) for
// an empty text and for tokens outside the vocabulary, and throws what ChooseToken throws.
void Generate(Decoder& decoder, std::vector<std::int32_t> text, std::int64_t count,
              const Sampling& sampling, const std::function<bool(std::int32_t token)>& take);

}  // namespace acan
