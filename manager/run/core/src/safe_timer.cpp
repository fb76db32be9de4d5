#include "acan/manager/safe_timer.h"

#include <algorithm>
#include <utility>

#include "acan/manager/saving_interval.h"

namespace acan {
namespace {

// However often handlers are lost, results stop staying for at most 2 to the power of this many
// steps.
constexpr int kMaxDoublings = 6;

}  // namespace

bool SafeTimer::IsDue(std::int64_t version, std::int64_t now_us) const {
  const SavingHistory history{.took_us = took_us_,
                              .lived_us = static_cast<double>(now_us - started_us_),
                              .losses = losses_,
                              .at_last_us = begun_us_ - started_us_};
  return !version_ && version >= last_version_ + steps_ &&
         now_us - begun_us_ >= SavingIntervalUs(history);
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

// A first loss may remain the only one, so the steps after it are as fast as before.
void SafeTimer::OnLost(std::int64_t version) {
  ++losses_;
  if (++lost_in_a_row_ < 2) return;
  stay_from_ = version + (std::int64_t{1} << std::min(lost_in_a_row_ - 2, kMaxDoublings));
}

void SafeTimer::GoBackTo(std::int64_t version) {
  version_.reset();
  last_version_ = version;
}

bool SafeTimer::OnDone(std::int64_t version, std::int64_t now_us) {
  if (version_ != version) return false;
  version_.reset();
  lost_in_a_row_ = 0;
  took_us_ = now_us - begun_us_;
  return true;
}

}  // namespace acan
