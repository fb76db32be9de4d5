// Dropout's random draws: a pure function of (seed, step, stream, element), by Philox. The forward
// and the backward pass, any cut and any device draw the same numbers.
#pragma once

#include <cstdint>

namespace acan::model {

// Philox counters are (low, high). For initial weights, high is the parameter's number, below 2^32;
// for dropout, high has its highest bit set, so the two never collide.
inline constexpr std::int64_t kMaxDropoutStreams = 1 << 20;

// An element is kept if its uniform number in [0, 1) is not below the rate. Element e has word
// e mod 4 of the counter (e / 4, DropoutCounterHigh). REQUIRES: 0 <= step < 2^43 and
// 0 <= stream < kMaxDropoutStreams.
inline std::uint64_t DropoutCounterHigh(std::int64_t step, std::int64_t stream) {
  return std::uint64_t{1} << 63 | static_cast<std::uint64_t>(step) << 20 |
         static_cast<std::uint64_t>(stream);
}

// The factor by which a kept element is multiplied.
inline float DropoutScale(float rate) {
  return static_cast<float>(1.0 / (1.0 - static_cast<double>(rate)));
}

}  // namespace acan::model
