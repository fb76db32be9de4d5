// Liveness: notices that a run makes no progress, and what should be done about it. Pure: no clock.
// For one thread.
#pragma once

#include <cstdint>

#include "acan/manager/task_policy.h"

namespace acan {

class Liveness {
 public:
  enum class Advice : std::uint8_t {
    kNone,
    kSay,     // tell the user what the run waits for
    kReplan,  // tasks can be taken, and nobody takes them: they may fit none of those who work
    kGoBack,  // no task can be taken or is: something of the step is gone
    kGiveUp,  // as before, and going back did not help
  };

  // Tasks were done, or there is nothing that anybody should do.
  void OnProgress(std::int64_t now_us);
  void OnNewStep() { went_back_ = 0; }  // one is finished that never was before
  void OnSpace(const SpaceSeen& seen, std::int64_t now_us);
  // Several times a second. A longer pause (a stopped process, a lost connection) does not count.
  // `needs_handler`: the run cannot go on before another handler comes, and nothing is gone.
  Advice OnTick(std::int64_t now_us, bool needs_handler = false);
  double IdleSeconds(std::int64_t now_us) const {
    return static_cast<double>(now_us - progress_us_) * 1e-6;
  }
  const SpaceSeen& space() const { return space_; }

 private:
  std::int64_t progress_us_ = 0;
  std::int64_t tick_us_ = 0;
  std::int64_t say_us_ = 0;       // not before
  std::int64_t unworked_us_ = 0;  // since when no task is taken; -1: some are
  int went_back_ = 0;             // since the last new step
  SpaceSeen space_;
};

}  // namespace acan
