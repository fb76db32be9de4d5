#include "acan/handler/cache_eviction.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "acan/core/names.h"

namespace acan {

using tuplespace::Key;

namespace {
// An entry that is not used for this long goes.
constexpr std::int64_t kColdUs = 10'000'000;
}  // namespace

// These entries will hardly be needed again, and another handler often waits for their memory.
void CacheEviction::DropOlder(const Key& input, DeviceCache& cache, StepActions& out) {
  if (step_ && input.bytes().compare(0, step_->bytes().size(), step_->bytes()) == 0) return;
  std::optional<Key> step = StepOf(input);
  if (!step) return;
  step_ = std::move(step);
  const auto end = cache.entries().lower_bound(*step_);
  for (auto at = cache.entries().lower_bound(RunOf(*step_)); at != end;) {
    const auto older = at++;
    if (!older->second.IsHeld()) cache.Drop(older, out);
  }
}

std::int64_t CacheEviction::NextCheckUs(const DeviceCache& cache) const {
  return cache.entries().empty() ? tuplespace::kForeverUs : check_us_;
}

void CacheEviction::DropCold(std::int64_t now_us, DeviceCache& cache, StepActions& out) {
  check_us_ = now_us + kColdUs / 4;
  for (auto at = cache.entries().begin(); at != cache.entries().end();) {
    const auto cold = at++;
    const DeviceCache::Entry& entry = cold->second;
    if (!entry.IsHeld() && now_us >= entry.last_used_us + kColdUs) cache.Drop(cold, out);
  }
}

void CacheEviction::ShrinkTo(std::uint64_t most_bytes, DeviceCache& cache, StepActions& out) {
  if (cache.bytes() <= most_bytes) return;
  // Sorted once, as a large task may need the room of many small inputs.
  std::vector<DeviceCache::Entries::const_iterator> coldest_first;
  for (auto at = cache.entries().begin(); at != cache.entries().end(); ++at) {
    if (!at->second.IsHeld()) coldest_first.push_back(at);
  }
  std::stable_sort(coldest_first.begin(), coldest_first.end(), [](const auto& a, const auto& b) {
    return a->second.last_used_us < b->second.last_used_us;
  });
  for (const auto& entry : coldest_first) {
    if (cache.bytes() <= most_bytes) return;
    cache.Drop(entry, out);
  }
  assert(cache.bytes() <= most_bytes);
}

}  // namespace acan
