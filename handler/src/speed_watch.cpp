#include "acan/handler/speed_watch.h"

#include <algorithm>
#include <utility>

#include "acan/core/names.h"

namespace acan {
namespace {

constexpr double kMinLearnedUs = 20e3;      // of all tasks of a kind in a window
constexpr double kNearlyUsual = 1.25;       // counts as the usual speed
constexpr std::size_t kMaxKinds = 1 << 12;  // far more than a step has

}  // namespace

WatchedTask WatchedTaskOf(const Task& task, std::uint64_t flops) {
  if (flops == 0) return {};
  const bool exact = task.precision == Precision::kExact;
  // Multiplied by an odd number, all numbers of operations stay different.
  std::uint64_t kind = flops * 0x9e3779b97f4a7c15u;
  kind ^= task.calls.size() << 8 | static_cast<std::uint64_t>(task.kind) << 1 | (exact ? 1u : 0u);
  return {std::max<std::uint64_t>(1, kind), exact ? flops : 0};
}

bool SpeedWatch::Note(const WatchedTask& task, std::int64_t took_us, std::int64_t now_us) {
  if (task.kind == 0) return false;
  if (window_.busy_us == 0) window_.begin_us = now_us - took_us;
  const auto us = static_cast<double>(std::max<std::int64_t>(1, took_us));
  window_.busy_us += us;
  window_.exact_flops += static_cast<double>(task.exact_flops);
  if (const auto usual = usual_us_.find(task.kind); usual != usual_us_.end()) {
    window_.usual_us += usual->second;
    window_.took_us += us;
  } else {
    Sum& sum = window_.fresh[task.kind];
    sum.us += us;
    ++sum.tasks;
  }
  if (now_us - window_.begin_us < kWindowUs) return false;
  return EndWindow(std::exchange(window_, {}), now_us);
}

bool SpeedWatch::EndWindow(const Window& window, std::int64_t now_us) {
  if (window.took_us < kMinBusyUs) {
    Learn(window, speed_);
    return false;
  }
  double speed = std::clamp(window.usual_us / window.took_us, kMinSpeed, kMaxSpeed);
  Learn(window, speed);
  compared_us_ = now_us;
  Trend trend = Trend::kNone;
  if (speed >= kChange * speed_) trend = Trend::kFaster;
  if (speed <= speed_ / kChange) trend = Trend::kSlower;
  const bool again = trend != Trend::kNone && trend == trend_;
  trend_ = trend;
  if (trend == Trend::kNone && speed_ == 1) forget_us_ = kForgetUs;
  if (!again || now_us < hold_until_us_) return false;
  trend_ = Trend::kNone;
  speed = Proven(window, speed);
  if (speed * kNearlyUsual >= 1 && speed <= kNearlyUsual) speed = 1;
  if (speed == speed_) return false;
  speed_ = speed;
  hold_until_us_ = now_us + kHoldUs;
  return true;
}

// `speed`: that of the window. A kind that hardly took part has no usual time yet.
void SpeedWatch::Learn(const Window& window, double speed) {
  if (usual_us_.size() + window.fresh.size() > kMaxKinds) usual_us_.clear();
  for (const auto& [kind, sum] : window.fresh) {
    if (sum.us >= kMinLearnedUs) usual_us_.emplace(kind, speed * sum.us / sum.tasks);
  }
}

// Returns `speed` as far as the tasks of the window have reached it, and takes the rest out of the
// usual times.
double SpeedWatch::Proven(const Window& window, double speed) {
  const double reached = window.exact_flops / (window.busy_us * 1e3);
  const double proven = std::min(speed, std::max(1.0, gflops_ > 0 ? reached / gflops_ : 1.0));
  if (proven < speed) {
    for (auto& [kind, us] : usual_us_) us *= proven / speed;
  }
  return proven;
}

bool SpeedWatch::Forget(std::int64_t now_us) {
  if (speed_ >= 1 || now_us - compared_us_ < forget_us_) return false;
  forget_us_ = std::min(2 * forget_us_, kMaxForgetUs);
  speed_ = 1;
  window_ = {};
  trend_ = Trend::kNone;
  return true;
}

}  // namespace acan
