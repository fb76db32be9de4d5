#include "ending.h"

#include <fmt/format.h>

#include "seconds_text.h"

namespace tuplespace {

void Ending::AskSoon() {
  Asked nothing = Asked::kNothing;
  asked_.compare_exchange_strong(nothing, Asked::kSoon, std::memory_order_acq_rel);
}

bool Ending::IsDue(const BrokerCore& core, std::int64_t now_us, const Log& log) {
  const Asked asked = asked_.load(std::memory_order_acquire);
  if (asked == Asked::kNothing) return false;
  if (asked == Asked::kNow || !linger_) return true;
  const std::optional<std::string> holder = core.HolderOf(linger_->while_leased);
  if (!holder) return true;
  if (!until_us_) {
    until_us_ = now_us + linger_->most_us;
    log(fmt::format("stopping: {} {}; serving on for at most {}", *holder, linger_->why,
                    SecondsText(linger_->most_us)));
  }
  if (now_us < *until_us_) return false;
  log(fmt::format("stopping after {}, although {} {}", SecondsText(linger_->most_us), *holder,
                  linger_->why));
  AskNow();
  return true;
}

void Ending::Forget() {
  asked_.store(Asked::kNothing, std::memory_order_release);
  until_us_.reset();
}

}  // namespace tuplespace
