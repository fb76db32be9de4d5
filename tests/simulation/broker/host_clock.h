// HostClock: the clock of a simulated host, which is ahead of the world's clock by some time, and a
// timer that uses it. Owned by a BrokerHost; used only on the world's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "world/world.h"

namespace acan::simulation {

class HostClock {
 public:
  // `world` must outlive this object, and this object must outlive the world's events.
  explicit HostClock(World& world) : world_(world) {}
  HostClock(const HostClock&) = delete;
  HostClock& operator=(const HostClock&) = delete;

  std::int64_t NowUs() const { return world_.now_us() + ahead_us_; }
  void SetAhead(std::int64_t ahead_us) { ahead_us_ = ahead_us; }
  void Jump(std::int64_t forward_us) { ahead_us_ += forward_us; }

  // Calls `what` when this clock shows `due_us`, or at once if that time has passed. Does nothing
  // for kNever, or if a timer that is due earlier is set; replaces a later one.
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
  std::uint64_t timer_ = 0;            // the newest; older ones are ignored
  std::int64_t timer_at_us_ = kNever;  // in the world's time
};

}  // namespace acan::simulation
