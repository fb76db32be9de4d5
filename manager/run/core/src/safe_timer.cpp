#include "acan/manager/safe_timer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace acan {
namespace {

// Between two copies there are so many times the time of one: a slow link is rather used for steps.
constexpr std::int64_t kPausesOfOne = 9;
// A lost handler costs the steps since the last copy, so copies cost least in all with Young's rule
// for snapshots (SnapshotPolicy). No longer than the most, as small tiles of all versions since
// then stay in the space.
constexpr double kBetweenLossesUs = 1.8e9;
constexpr double kMostPauseUs = 10e6;
// However often handlers are lost, nothing stays for 2 to the power of this many steps at most.
constexpr int kMostDoublings = 6;

std::int64_t PauseUs(std::int64_t took_us) {
  const double least_cost_us = std::sqrt(2 * static_cast<double>(took_us) * kBetweenLossesUs);
  return std::max(kPausesOfOne * took_us,
                  static_cast<std::int64_t>(std::min(least_cost_us, kMostPauseUs)));
}

}  // namespace

bool SafeTimer::IsDue(std::int64_t version, std::int64_t now_us) const {
  return !version_ && version >= last_version_ + steps_ && now_us >= ended_us_ + PauseUs(took_us_);
}

void SafeTimer::Begin(std::int64_t version, std::int64_t now_us) {
  version_ = last_version_ = version;
  begun_us_ = now_us;
}

bool SafeTimer::Note(std::int64_t version) {
  last_version_ = version;
  if (version > stay_from_) lost_in_a_row_ = 0;
  return std::exchange(version_, std::nullopt).has_value();
}

// One loss may be of a handler that is lost once. After it, steps go on as fast as before it.
void SafeTimer::OnLost(std::int64_t version) {
  if (++lost_in_a_row_ < 2) return;
  stay_from_ = version + (std::int64_t{1} << std::min(lost_in_a_row_ - 2, kMostDoublings));
}

void SafeTimer::GoBackTo(std::int64_t version) {
  version_.reset();
  last_version_ = version;
}

bool SafeTimer::OnDone(std::int64_t version, std::int64_t now_us) {
  if (version_ != version) return false;
  version_.reset();
  lost_in_a_row_ = 0;
  ended_us_ = now_us;
  took_us_ = now_us - begun_us_;
  return true;
}

}  // namespace acan
