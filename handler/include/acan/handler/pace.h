// Pace: learns how fast this handler computes and how long a task takes to arrive, so that the next
// task is requested early enough, but not much earlier (Little's law: the work to hold is the
// processing rate times the time until more work arrives). A slow handler with a queue makes all
// other handlers wait for it.
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
  // A task arrived this long after it was requested. As there may have been none to give, the
  // minimum of the last few counts.
  void NoteFetch(std::int64_t took_us);
  // The missing inputs of a task arrived over a link this long after the task. The maximum of the
  // last few counts, because tasks that read little alternate with tasks that read much.
  void NoteInputs(std::int64_t took_us);

  // 0: unknown.
  std::int64_t RunUs(std::uint64_t flops) const;
  // The average time of the last few tasks, at least 1; 0: unknown.
  std::int64_t MeanUs() const { return static_cast<std::int64_t>(std::ceil(mean_us_)); }
  // Request the next task when at most this much work is left. `run_us` is the time of the longest
  // task.
  std::int64_t LeadUs(std::int64_t run_us) const;

 private:
  // Averages over the last few tasks that count operations. Their quotient is the speed of long
  // tasks: a short task takes many times as long for each operation and says nothing about long
  // ones.
  double counted_us_ = 0;
  double counted_flops_ = 0;
  double mean_us_ = 0;
  std::deque<std::int64_t> fetches_us_, inputs_us_;
};

}  // namespace acan
