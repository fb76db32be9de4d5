// Sampler: chooses a token by a model's outputs. Pure functions of their arguments: the same bits
// of outputs give the same token on every machine.
#pragma once

#include <cstdint>
#include <span>

namespace acan {

inline constexpr double kMostTemperature = 1000;

struct Sampling {
  double temperature = 1;  // 0: the token with the largest output, of equal ones the first
  std::int64_t top_k = 0;  // of these many largest outputs only; of equal ones the first; 0: all
  std::uint64_t seed = 1;
  std::int64_t tokens = 0;  // the first so many tokens only: those of a vocabulary; 0: all
};

// The token for the place `position` of a text. With a temperature above 0, token i is drawn with a
// probability in proportion to e^((outputs[i] - largest) / temperature), by the 53 bits of word 0
// and 1 of Philox of the key `seed` and the counter (position, 5 x 2^58); sums are taken in double,
// in ascending order. Throws Error (failure) if an output is not finite.
// REQUIRES: outputs is not empty; 0 <= temperature <= kMostTemperature; top_k and tokens >= 0.
std::int32_t ChooseToken(std::span<const float> outputs, const Sampling& sampling,
                         std::int64_t position);

}  // namespace acan
