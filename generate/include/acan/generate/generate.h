// Generate: continues a text of tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "acan/generate/decoder.h"
#include "acan/generate/sampler.h"

namespace acan {

// Appends `count` tokens to `text`, and calls `take` with each as soon as it is chosen. What is
// behind the last Decoder::positions tokens counts; when a text is longer, each token is computed
// anew from the last ones, which then are at the positions 0, 1, ..., as nanoGPT crops its context.
// Throws Error (usage) for an empty text and for tokens that the model lacks, and what
// ChooseToken throws.
void Generate(Decoder& decoder, std::vector<std::int32_t> text, std::int64_t count,
              const Sampling& sampling, const std::function<void(std::int32_t token)>& take);

}  // namespace acan
