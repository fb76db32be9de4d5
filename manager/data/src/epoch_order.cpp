#include <cassert>
#include <numeric>
#include <utility>

#include "acan/core/philox.h"
#include "acan/manager/sample_set.h"
#include "random_streams.h"

namespace acan {

std::uint64_t BoundedDraws::Below(std::uint64_t bound) {
  const std::uint64_t rejected = (0 - bound) % bound;  // 2^64 mod bound
  for (;;) {
    const std::uint64_t word = Next();
    if (word >= rejected) return word % bound;
  }
}

std::uint64_t BoundedDraws::Next() {
  const acan_philox4 words = acan_philox(seed_, counter_ / 2, stream_);
  const std::size_t at = 2 * (counter_++ % 2);
  return std::uint64_t{words.v[at]} | std::uint64_t{words.v[at + 1]} << 32;
}

std::vector<std::int64_t> EpochOrder(std::int64_t samples, std::uint64_t seed, std::int64_t epoch,
                                     bool shuffle) {
  assert(samples >= 0 && epoch >= 0);
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  if (!shuffle) return order;
  BoundedDraws draws(seed, RandomStream(RandomUse::kEpochOrder, static_cast<std::uint64_t>(epoch)));
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[draws.Below(i)]);
  }
  return order;
}

}  // namespace acan
