// HostClock: the clock of a simulated host, which is ahead of the world's by some time, and the one
// timer that is set by it. Owned by a BrokerHost; in the thread of the world, as all of this.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "world/world.h"

namespace acan::simulation {

class HostClock {
 public:
  // `world` must outlive it, and the timer with it.
  explicit HostClock(World& world) : world_(world) {}
  HostClock(const HostClock&) = delete;
  HostClock& operator=(const HostClock&) = delete;

  std::int64_t NowUs() const { return world_.now_us() + ahead_us_; }
  void SetAhead(std::int64_t ahead_us) { ahead_us_ = ahead_us; }
  void Jump(std::int64_t forward_us) { ahead_us_ += forward_us; }

  // Calls `what` when this clock shows `due_us`, or at once if it does by now; kNever: never. What
  // is to be called earlier stays, what is to be called later does not.
  void SetTimer(std::int64_t due_us, std::function<void()> what) {
    if (due_us >= kNever) return;
    const std::int64_t at_us = std::max(due_us - ahead_us_, world_.now_us() + 1);
    if (timer_at_us_ > world_.now_us() && timer_at_us_ <= at_us) return;
    timer_at_us_ = at_us;
    world_.At(at_us, [this, timer = ++timer_, what = std::move(what)] {
      if (timer != timer_) return;
      timer_at_us_ = kNever;
      what();
    });
  }
  void CancelTimer() {
    timer_at_us_ = kNever;
    ++timer_;
  }

 private:
  World& world_;
  std::int64_t ahead_us_ = 0;
  std::uint64_t timer_ = 0;            // the newest; older ones do nothing
  std::int64_t timer_at_us_ = kNever;  // of the world's clock
};

}  // namespace acan::simulation
