// ProgressDisplay: the progress of a run, for a person at a terminal or for a log.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "acan/manager/manager.h"
#include "log.h"

namespace acan::cli {

// On a terminal: one live line, rewritten at most ten times a second. Otherwise: a line every two
// seconds. In both cases: a line for each evaluation. Not thread safe.
class ProgressDisplay {
 public:
  explicit ProgressDisplay(Log& log) : log_(log) {}
  ~ProgressDisplay() { log_.terminal().EndLive(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void Show(const Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  Log& log_;
  std::optional<Clock::time_point> shown_;
};

// "epoch 2/8  step 900/3752  loss 0.4123  21034 samples/s  0:12 left  4 handlers  0 re-issued"
std::string ProgressText(const Progress& progress);
// "1:02:03", "0:12".
std::string DurationText(double seconds);

}  // namespace acan::cli
