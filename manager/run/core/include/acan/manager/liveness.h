// Liveness: notices when a run makes no progress, and advises what to do. Pure: no clock. For one
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "acan/manager/manager_events.h"

namespace acan {

class Liveness {
 public:
  enum class Advice : std::uint8_t {
    kNone,
    kSay,  // tell the user what the run waits for
    // Tasks are ready and nobody takes them, or some are taken and for long none is done: they may
    // fit no handler that works.
    kReplan,
    kGoBack,  // no task is ready or leased, or still on its way: something of the step is lost
    kGiveUp,  // as kGoBack, but going back did not help
  };

  // Tasks or votes were completed, or there is nothing to do.
  void OnProgress(std::int64_t now_us);
  void OnNewStep() { went_back_ = 0; }  // a step that was never finished before
  void OnTasks(const RunTasksSeen& seen, std::int64_t now_us);
  // All handlers that are present.
  void OnHandlers(const std::map<std::string, Capacity>& handlers);
  // No handler is there, and the user knows. Call it before OnTick for as long as that is so: this
  // time does not count. It does not begin anew either: handlers may come again and again, and do
  // nothing before they are lost.
  void OnNobodyThere(std::int64_t now_us);
  // Called several times a second. A longer pause (a stopped process, a lost connection) does not
  // count as a stall. `needs_handler`: the run has to wait for another handler, and nothing is
  // lost.
  Advice OnTick(std::int64_t now_us, bool needs_handler = false);
  // Whether the user should be told with the last advice that there is no progress: some advice is
  // repeated more often than that is worth a line.
  bool IsToBeSaid() const { return says_; }
  // Without progress, while handlers were there.
  double IdleSeconds(std::int64_t now_us) const {
    return static_cast<double>(now_us - progress_us_) * 1e-6;
  }
  // With kReplan: whether it has been waited long enough for handlers that worked before, which may
  // be busy with other runs.
  bool WaitedForWorkers(std::int64_t now_us) const;
  const RunTasksSeen& tasks() const { return tasks_; }
  const LostHandlers& lost() const { return lost_; }  // since the last progress

 private:
  std::int64_t progress_us_ = 0;
  std::int64_t tick_us_ = 0;
  std::int64_t say_us_ = 0;       // the earliest time to say so
  std::int64_t unworked_us_ = 0;  // since when no task is leased; -1: some are
  std::int64_t undone_us_ = 0;    // since when the number of tasks has not changed
  bool says_ = false;             // IsToBeSaid
  bool counted_ = false;          // OnTasks was called since the last progress
  int went_back_ = 0;             // since the last new step
  RunTasksSeen tasks_;
  std::map<std::string, std::string> handlers_;  // the names of those present, by client id
  LostHandlers lost_;
};

}  // namespace acan
