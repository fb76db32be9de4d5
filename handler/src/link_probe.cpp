#include "acan/handler/link_probe.h"

#include <algorithm>

namespace acan {
namespace {

constexpr int kRoundTrips = 8;
constexpr std::uint64_t kFirstBytes = 64 << 10;
constexpr std::uint64_t kTimesLarger = 4;
// Switches and drivers buffer some bytes, however slow the link behind them is.
constexpr std::int64_t kLongEnoughUs = 50'000;
constexpr std::int64_t kMaxUs = 1 << 30;
// How often the largest size is sent unless that takes long: other work of the hosts can make a
// link seem slower, but never faster.
constexpr int kTimesLargest = 3;
constexpr std::int64_t kTooLongToRepeatUs = 200'000;

}  // namespace

std::optional<std::uint64_t> LinkProbe::Next() const {
  if (small_ < kRoundTrips) return 1;
  if (is_enough_) return std::nullopt;
  if (largest_ > 0) return bytes_;
  return bytes_ == 0 ? kFirstBytes : bytes_ * kTimesLarger;
}

void LinkProbe::Note(std::int64_t took_us) {
  const std::int64_t us = std::clamp<std::int64_t>(took_us, 1, kMaxUs);
  if (small_ < kRoundTrips) {
    const auto round_trip_us = static_cast<std::uint32_t>(us);
    round_trip_us_ = small_++ == 0 ? round_trip_us : std::min(round_trip_us_, round_trip_us);
    return;
  }
  bytes_ = *Next();
  const std::int64_t of_bytes_us = std::max<std::int64_t>(1, us - round_trip_us_);
  const std::int64_t kib = static_cast<std::int64_t>(bytes_ / 1024);
  const auto ns_per_kib =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(of_bytes_us * 1000 / kib, 1, kMaxUs));
  ns_per_kib_ = largest_ > 0 ? std::min(ns_per_kib_, ns_per_kib) : ns_per_kib;
  if (largest_ > 0 || us >= kLongEnoughUs || bytes_ * kTimesLarger > kMaxBytes) ++largest_;
  is_enough_ = largest_ == kTimesLargest || us >= kTooLongToRepeatUs;
}

}  // namespace acan
