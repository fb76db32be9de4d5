#include "adaptive_spin.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "tuplespace/clock.h"

namespace tuplespace {

namespace {

constexpr int kMaxCredit = 8;
constexpr std::int64_t kBusyTurns = 256;

}  // namespace

void AdaptiveSpin::Slept(std::int64_t us) {
  const bool missed = std::exchange(missed_, false);
  if (!missed && credit_ == 0 && us < kSoonUs) credit_ = 1;
}

void AdaptiveSpin::Spun(bool found) {
  missed_ = !found;
  credit_ = std::clamp(credit_ + (found ? 1 : -1), 0, kMaxCredit);
}

void AdaptiveSpin::Yielded(std::int64_t before_us, std::int64_t now_us) {
  const std::int64_t us = now_us - before_us;
  if (us >= kTurnUs) busy_until_us_ = now_us + kBusyTurns * us;
}

std::int64_t AdaptiveSpin::NowUs() {
  return MonotonicUs();
}

void AdaptiveSpin::YieldProcessor() {
  sched_yield();
}

}  // namespace tuplespace
