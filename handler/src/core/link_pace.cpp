#include "acan/handler/link_pace.h"

#include <algorithm>
#include <utility>

namespace acan {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint32_t kAssumedNsPerKib = 8 * kKiB;  // 1 Gbit/s
constexpr std::uint32_t kAssumedNsPerKibHere = 512;   // 2 GB/s: off the device and into the space
constexpr std::uint64_t kMinBytes = 64 * kKiB;        // for less, the round trip dominates
constexpr std::int64_t kMaxNsPerKib = 1 << 30;        // one second for a KiB
// A slower supply may have waited for others, so only this part of the difference counts.
constexpr std::int64_t kPartOfSlower = 8;

}  // namespace

void LinkPace::Begin(bool bytes_travel) {
  travels_ = bytes_travel;
  seen_ = false;
  ns_per_kib_ = travels_ ? kAssumedNsPerKib : kAssumedNsPerKibHere;
}

void LinkPace::Note(std::uint64_t bytes, std::int64_t took_us) {
  if (bytes < kMinBytes) return;
  const auto kib = static_cast<std::int64_t>(bytes / kKiB);
  const std::int64_t seen = std::clamp<std::int64_t>(took_us, 0, kMaxNsPerKib) * 1000 / kib;
  const std::int64_t known = ns_per_kib_;
  const bool counts_whole = !std::exchange(seen_, true) || seen < known;
  const std::int64_t next = counts_whole ? seen : known + (seen - known) / kPartOfSlower;
  ns_per_kib_ = static_cast<std::uint32_t>(std::clamp<std::int64_t>(next, 1, kMaxNsPerKib));
}

std::int64_t LinkPace::UsFor(std::uint64_t bytes) const {
  return static_cast<std::int64_t>(bytes / kKiB) * ns_per_kib_ / 1000;
}

}  // namespace acan
