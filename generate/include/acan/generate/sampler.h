// Sampler: chooses a token from a model's outputs. Pure functions: the same output bits give the
// same token on every machine.
#pragma once

#include <cstdint>
#include <span>

namespace acan {

inline constexpr double kMaxTemperature = 1000;

struct Sampling {
  double temperature = 1;  // 0: the token with the largest output; the first if several are equal
  std::int64_t top_k = 0;  // only the k largest outputs, the first of equal ones; 0: all
  std::uint64_t seed = 1;
  std::int64_t tokens = 0;  // only the first N tokens, those of a vocabulary; 0: all
};

// The token for position `position` of a text. With a temperature above 0, token i is drawn with a
// probability proportional to e^((outputs[i] - largest) / temperature). The draw takes 53 bits from
// words 0 and 1 of Philox with the key `seed` and the counter (position, 5 x 2^58); sums are
// computed in double, in ascending order. Throws Error (failure) if an output is not finite.
// REQUIRES: outputs is not empty; 0 <= temperature <= kMaxTemperature; top_k and tokens >= 0.
std::int32_t ChooseToken(std::span<const float> outputs, const Sampling& sampling,
                         std::int64_t position);

}  // namespace acan
