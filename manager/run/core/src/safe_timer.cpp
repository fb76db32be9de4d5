#include "acan/manager/safe_timer.h"

namespace acan {
namespace {

// Between two copies there are so many times the time of one: a slow link is rather used for steps.
constexpr std::int64_t kPausesOfOne = 9;

}  // namespace

bool SafeTimer::IsDue(std::int64_t version, std::int64_t now_us) const {
  return !version_ && version >= last_version_ + steps_ &&
         now_us >= ended_us_ + kPausesOfOne * took_us_;
}

void SafeTimer::Begin(std::int64_t version, std::int64_t now_us) {
  version_ = last_version_ = version;
  begun_us_ = now_us;
}

void SafeTimer::GoBackTo(std::int64_t version) {
  version_.reset();
  last_version_ = version;
}

bool SafeTimer::OnDone(std::int64_t version, std::int64_t now_us) {
  if (version_ != version) return false;
  version_.reset();
  ended_us_ = now_us;
  took_us_ = now_us - begun_us_;
  return true;
}

}  // namespace acan
