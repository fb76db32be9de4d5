// The state of a run's policy over time: tuning.jsonl has a line for each pouch, and four lines per
// second.
#pragma once

#include <cstdint>
#include <string>

#include "acan/manager/line_file.h"

namespace acan {

struct Tuning {
  double unix_s = 0;            // wall clock, to compare lives of a run and other logs
  std::int64_t step = 0;        // steps committed
  std::int64_t pouches = 0;     // begun in this life; 0 for policies without pouches
  std::int64_t pouch = 0;       // maximum number of tasks in flight
  std::int64_t in_flight = 0;   // tasks put and not known to be done
  std::int64_t timeout_us = 0;  // the current one, or that of the last task put
  std::int64_t handlers = 0;    // present
  double gflops = 0;            // of all of them: measured while they worked, else as reported
  double busy_s = 0;            // of all handlers ever seen together
  std::int64_t tasks_done = 0;  // in this life
  double gflop_done = 0;        // 10^9 operations of these tasks; a repeated task counts once
  std::int64_t reissued = 0;    // tasks, in this life
};

// tuning.jsonl has one JSON object per line. Every life of a run continues the file; on a full
// disk, lines wait (LineFile). For one thread.
class TuningLog {
 public:
  // `anew`: discards the file's content. Throws Error (failure) with the path and the system's
  // message; so does Write, if too much waits.
  TuningLog(const std::string& path, bool anew);

  void Write(const Tuning& tuning);
  LineFile& lines() { return lines_; }

 private:
  LineFile lines_;
};

}  // namespace acan
