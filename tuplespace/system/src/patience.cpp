#include "patience.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "tuplespace/clock.h"

namespace tuplespace {

namespace {

constexpr int kMostTrust = 8;
constexpr std::int64_t kBusyTurns = 256;

}  // namespace

void Patience::Slept(std::int64_t us) {
  const bool missed = std::exchange(missed_, false);
  if (!missed && trust_ == 0 && us < kSoonUs) trust_ = 1;
}

void Patience::Looked(bool found) {
  missed_ = !found;
  trust_ = std::clamp(trust_ + (found ? 1 : -1), 0, kMostTrust);
}

void Patience::Yielded(std::int64_t before_us, std::int64_t now_us) {
  const std::int64_t us = now_us - before_us;
  if (us >= kTurnUs) busy_until_us_ = now_us + kBusyTurns * us;
}

std::int64_t Patience::NowUs() {
  return MonotonicUs();
}

void Patience::YieldProcessor() {
  sched_yield();
}

}  // namespace tuplespace
