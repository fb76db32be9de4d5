// Pace: how fast this handler computes and how long a task takes to come, learned, so that the next
// task is asked for when it will be there in time, and not much earlier (Little's law: the work to
// hold is the rate at which it is done times the time that more of it takes to come). A slow
// handler that keeps a queue makes all others wait for it.
//
// Pure: no clock. For one thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>

namespace acan {

class Pace {
 public:
  // A task was computed.
  void NoteRun(std::uint64_t flops, std::int64_t took_us);
  // A task came so long after it was asked for. There may have been none to give: the least of the
  // last few is what counts.
  void NoteFetch(std::int64_t took_us);
  // What it lacked of its inputs came over a link so long after the task. The most of the last few
  // counts: tasks that read little and tasks that read much come in turn.
  void NoteInputs(std::int64_t took_us);

  // 0: not known.
  std::int64_t RunUs(std::uint64_t flops) const;
  // A task's time, on the mean of the last few, at least 1; 0: not known.
  std::int64_t MeanUs() const { return static_cast<std::int64_t>(std::ceil(mean_us_)); }
  // Ask for the next task when no more work than this is left, `run_us` of it in the task that
  // runs.
  std::int64_t LeadUs(std::int64_t run_us) const;

 private:
  // Of tasks that count operations, on the mean of the last few. Their quotient is the speed of the
  // long ones: a short task takes many times as long for each operation, and tells nothing of them.
  double counted_us_ = 0;
  double counted_flops_ = 0;
  double mean_us_ = 0;
  std::deque<std::int64_t> fetches_us_, inputs_us_;
};

}  // namespace acan
