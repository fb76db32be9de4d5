// LivesInVain: counts the lives of a run that end for the same reason without a new step. Pure.
// Owned by Manager, for Run's thread.
#pragma once

#include <cstdint>

namespace acan {

class LivesInVain {
 public:
  // The number of lives without a new step after which the run should end. A life may take only a
  // fraction of a second.
  static constexpr int kMost = 10;

  // A life ended when `steps` steps of the run were done. Returns whether the run should end.
  bool OnEnd(std::int64_t steps) {
    if (steps > most_steps_) {
      most_steps_ = steps;
      lives_ = 0;
      return false;
    }
    return ++lives_ >= kMost;
  }

 private:
  std::int64_t most_steps_ = -1;  // that were done when a life ended
  int lives_ = 0;                 // since then
};

}  // namespace acan
