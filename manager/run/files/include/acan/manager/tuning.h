// How a run's policy stands, over time: what tuning.jsonl has a line of for each pouch, and four
// times a second.
#pragma once

#include <cstdint>
#include <string>

#include "acan/manager/line_file.h"

namespace acan {

struct Tuning {
  double unix_s = 0;            // wall clock, so that lives of a run and other logs can be compared
  std::int64_t step = 0;        // steps committed
  std::int64_t pouches = 0;     // begun in this life; 0 for policies without
  std::int64_t pouch = 0;       // most tasks in flight
  std::int64_t in_flight = 0;   // put and not known to be done
  std::int64_t timeout_us = 0;  // in force, or of the task put last
  std::int64_t handlers = 0;    // present
  double gflops = 0;  // of those together: as measured while they worked, else as they say
  double busy_s = 0;  // of all handlers ever seen together
  std::int64_t tasks_done = 0;  // in this life
  double gflop_done = 0;      // 10^9 operations of these; a task counts once, whoever did it again
  std::int64_t reissued = 0;  // tasks, in this life
};

// tuning.jsonl: a JSON object a line. Every life of a run goes on with the file; on a full disk
// lines wait (LineFile). For one thread.
class TuningLog {
 public:
  // `anew`: what is there goes. Throws Error (failure) naming the path and the system's words; so
  // does Write, if too much waits.
  TuningLog(const std::string& path, bool anew);

  void Write(const Tuning& tuning);
  LineFile& lines() { return lines_; }

 private:
  LineFile lines_;
};

}  // namespace acan
