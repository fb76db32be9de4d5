// AdaptiveSpin: whether a thread that has nothing to do spins, looking for messages a moment
// longer, before it blocks. Waking a sleeper takes microseconds, and tens of them where an idle
// processor has to be started by a hypervisor first. So a thread that recently got quick replies
// spins, and another one sleeps at once. Learned from how long the last waits took, as KVM's halt
// polling is (halt_poll_ns).
//
// A spinning thread gives the processor away between two looks. If somebody else had it for long
// then, the processor is needed: a sleeper would be woken before the other's turn is over, one that
// spins waits for its end. So what is lost by that is kept below 1/256 of the time.
//
// One thread owns it.
#pragma once

#include <cstdint>

namespace tuplespace {

class AdaptiveSpin {
 public:
  static constexpr std::int64_t kSpinUs = 50;
  // A sleep so short might have been none; the wake-up itself is most of it.
  static constexpr std::int64_t kSoonUs = 200;
  // What a turn without the processor has to take to count as one.
  static constexpr std::int64_t kTurnUs = 1000;

  // Calls `news` until it says true (so does this) or it is time to sleep; not at all if spinning
  // is not worth it.
  template <class News>
  bool Spin(News news) {
    std::int64_t now_us = NowUs();
    if (!IsWorthIt(now_us)) return false;
    const std::int64_t end_us = now_us + kSpinUs;
    bool found = news();
    while (!found && now_us < end_us) {
      const std::int64_t before_us = now_us;
      YieldProcessor();
      now_us = NowUs();
      Yielded(before_us, now_us);
      found = news();
    }
    Spun(found);
    return found;
  }
  // After each sleep.
  void Slept(std::int64_t us);

  // What Spin consists of.
  bool IsWorthIt(std::int64_t now_us) const { return credit_ > 0 && now_us >= busy_until_us_; }
  void Spun(bool found);
  void Yielded(std::int64_t before_us, std::int64_t now_us);

 private:
  static std::int64_t NowUs();
  static void YieldProcessor();

  int credit_ = 0;
  bool missed_ = false;  // spun in vain since the last sleep
  std::int64_t busy_until_us_ = 0;
};

}  // namespace tuplespace
