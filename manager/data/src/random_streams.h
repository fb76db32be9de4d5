// The streams that are drawn from with the job's seed.
#pragma once

#include <cstdint>

namespace acan {

// The high halves of Philox counters, by use. Initial weights use the counters (element, tensor)
// with tensor below 2^32, and dropout sets the highest bit (model/dropout.h), so these collide with
// neither and not with each other.
enum class RandomUse : std::uint64_t {
  kWindowOffset = 1ULL << 58,
  kAugmentation = 2ULL << 58,
  kSampling = 5ULL << 58,  // of generated text; generate/src/sampler.cpp has it, too
  kEpochOrder = 1ULL << 61,
  kSampleInputs = 2ULL << 61,
  kTeacher = 3ULL << 61,
};

// REQUIRES: number < 2^58.
inline std::uint64_t RandomStream(RandomUse use, std::uint64_t number) {
  return static_cast<std::uint64_t>(use) | number;
}

// Unbiased draws below a bound, from Philox words in order. Words in the incomplete last round of
// the bound are rejected.
class BoundedDraws {
 public:
  BoundedDraws(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  // REQUIRES: bound > 0.
  std::uint64_t Below(std::uint64_t bound);

 private:
  std::uint64_t Next();

  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t counter_ = 0;
};

}  // namespace acan
