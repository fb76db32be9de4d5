#include "acan/handler/throttle.h"

#include <cassert>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>

namespace acan {
namespace {

constexpr std::size_t kMaxSpeeds = 4096;
constexpr const char* kRight =
    "must be GFLOP/s above 0, like 2.5, or several in turn, like 1,5,10@5s";

std::optional<double> ParseNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> ParsePeriodUs(std::string_view text) {
  double unit_us = 0;
  if (text.ends_with("ms")) {
    unit_us = 1e3;
    text.remove_suffix(2);
  } else if (text.ends_with("s")) {
    unit_us = 1e6;
    text.remove_suffix(1);
  }
  const std::optional<double> value = ParseNumber(text);
  if (!value || !(*value * unit_us >= 1e3) || *value * unit_us > 1e12) return std::nullopt;
  return static_cast<std::int64_t>(*value * unit_us);
}

}  // namespace

Throttle::Throttle(std::vector<double> gflops, std::int64_t period_us)
    : gflops_(std::move(gflops)), period_us_(period_us) {
  assert(!gflops_.empty() && (gflops_.size() == 1 || period_us_ > 0));
  for ([[maybe_unused]] const double speed : gflops_) assert(speed > 0);
}

std::optional<Throttle> Throttle::Parse(const std::string& text, std::string* problem) {
  *problem = kRight;
  const std::size_t at = text.find('@');
  std::string_view speeds = std::string_view(text).substr(0, at);
  std::int64_t period_us = 0;
  if (at != std::string::npos) {
    const std::optional<std::int64_t> period = ParsePeriodUs(std::string_view(text).substr(at + 1));
    if (!period) return std::nullopt;
    period_us = *period;
  }
  std::vector<double> gflops;
  for (;;) {
    const std::size_t comma = speeds.find(',');
    const std::optional<double> speed = ParseNumber(speeds.substr(0, comma));
    if (!speed || !(*speed >= 1e-9) || *speed > 1e9 || gflops.size() == kMaxSpeeds) {
      return std::nullopt;
    }
    gflops.push_back(*speed);
    if (comma == std::string_view::npos) break;
    speeds.remove_prefix(comma + 1);
  }
  if (gflops.size() > 1 && period_us == 0) return std::nullopt;
  return Throttle(std::move(gflops), period_us);
}

std::size_t Throttle::IndexAt(std::int64_t unix_us) const {
  if (gflops_.size() == 1) return 0;
  return static_cast<std::size_t>(unix_us / period_us_) % gflops_.size();
}

double Throttle::GflopsAt(std::int64_t unix_us) const {
  return gflops_[IndexAt(unix_us)];
}

double Throttle::MeanGflops() const {
  return std::accumulate(gflops_.begin(), gflops_.end(), 0.0) / static_cast<double>(gflops_.size());
}

std::int64_t Throttle::EndUs(std::int64_t unix_us, std::uint64_t flops) const {
  auto left = static_cast<double>(flops);
  std::int64_t now_us = unix_us;
  while (gflops_.size() > 1) {
    const std::int64_t change_us = (now_us / period_us_ + 1) * period_us_;
    const double until_change = static_cast<double>(change_us - now_us) * GflopsAt(now_us) * 1e3;
    if (left <= until_change) break;
    left -= until_change;
    now_us = change_us;
  }
  return now_us + static_cast<std::int64_t>(std::ceil(left / (GflopsAt(now_us) * 1e3)));
}

}  // namespace acan
