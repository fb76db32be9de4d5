// AdaptiveSpin: decides whether an idle thread spins, looking for messages a moment longer, before
// it blocks. Waking a sleeping thread takes microseconds, and tens of them if a hypervisor must
// first start an idle processor. So a thread that recently got quick replies spins, and any other
// thread blocks at once. It learns from how long the last waits took, as KVM's halt polling does
// (halt_poll_ns).
//
// A spinning thread yields the processor between two looks. If another thread then ran for long,
// the processor is needed. The scheduler would wake a sleeper before that thread's turn is over,
// but a spinning thread waits for its end. This class keeps the time that is lost in this way below
// 1/256.
//
// For one thread.
#pragma once

#include <cstdint>

namespace tuplespace {

class AdaptiveSpin {
 public:
  static constexpr std::int64_t kSpinUs = 50;
  // A sleep this short was hardly worth while, as the wake-up itself takes most of it.
  static constexpr std::int64_t kSoonUs = 200;
  // The processor must have been away for this long to count as needed.
  static constexpr std::int64_t kTurnUs = 1000;

  // Calls `news` until it returns true, and then returns true, or until it is time to sleep. Does
  // not call it at all if spinning is not worth it.
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
  // To be called after each sleep.
  void Slept(std::int64_t us);

  // The parts of Spin.
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
