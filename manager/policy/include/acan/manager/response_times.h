// ResponseTimes: how long tasks take from the lease to the completion, learned for each kind of
// task and each size (powers of two of its operations and of the bytes that leave its device) as
// TCP learns its retransmission time-out: a smoothed mean and a smoothed deviation (V. Paxson et
// al., RFC 6298, 2011). The lease of the next task of that kind and size follows from both. TCP
// must not learn from what it sent twice, because an answer does not say to which of the two
// (Karn); ours does, so late completions count too, and teach that the lease was too short. The
// doubling after an expiry is the space's (PROTOCOL.md).
//
// Pure: no clock. For one thread.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "acan/core/task.h"

namespace acan {

// What decides how long a task takes.
struct Work {
  TaskKind kind = TaskKind::kForward;
  std::uint64_t flops = 0;
  std::uint64_t leaving_bytes = 0;  // results that may not stay on the device
};
Work WorkOf(const Task& task);

inline constexpr std::int64_t kFirstLeaseUs = 2'000'000;   // before anything was learned
inline constexpr std::int64_t kLeastLeaseUs = 200'000;     // below, busy machines look hung
inline constexpr std::int64_t kMostLeaseUs = 600'000'000;  // ten minutes

class ResponseTimes {
 public:
  void Note(const Work& work, std::int64_t took_us);
  // From kLeastLeaseUs to kMostLeaseUs.
  std::int64_t LeaseUs(const Work& work) const;
  // Smoothed over all tasks in the order in which they ended; 0 before the first.
  double MeanUs() const { return all_.mean_us; }

 private:
  struct Estimate {
    bool known = false;
    double mean_us = 0;
    double deviation_us = 0;
    void Note(double took_us);
  };
  using Class = std::tuple<TaskKind, int, int>;
  static Class ClassOf(const Work& work);

  std::map<Class, Estimate> classes_;
  Estimate all_;
};

}  // namespace acan
