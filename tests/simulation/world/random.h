// The only source of randomness in a simulation: everything follows from its seed, on every
// machine.
#pragma once

#include <cassert>
#include <cstdint>

namespace acan::simulation {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}

  // SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number
  // generators", 2014).
  std::uint64_t Next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  std::uint64_t Below(std::uint64_t bound) {
    assert(bound > 0);
    return Next() % bound;
  }
  std::int64_t Between(std::int64_t least, std::int64_t most) {
    assert(least <= most);
    return least + static_cast<std::int64_t>(Below(static_cast<std::uint64_t>(most - least) + 1));
  }
  bool OneIn(std::uint64_t count) { return Below(count) == 0; }
  // A value from `least` to `most`, with each order of magnitude equally likely: picks a random
  // power of two times `least`, and then any value up to its double.
  std::int64_t Magnitude(std::int64_t least, std::int64_t most) {
    assert(0 < least && least <= most);
    int doublings = 0;
    while ((least << doublings) < most) ++doublings;
    const std::int64_t from = least << Below(static_cast<std::uint64_t>(doublings) + 1);
    const std::int64_t value = Between(from, 2 * from - 1);
    return value < most ? value : most;
  }

 private:
  std::uint64_t state_;
};

}  // namespace acan::simulation
