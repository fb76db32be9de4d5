// ResponseTimes: learns how long tasks take from the lease to the completion, for each kind of task
// and each size (powers of two of its operations and of the bytes that leave its device). It uses
// TCP's estimate of the retransmission time-out: a smoothed mean and a smoothed deviation (V.
// Paxson et al., RFC 6298, 2011), from which the lease of the next task of that kind and size
// follows. TCP must not learn from retransmitted segments, because an answer does not say which
// transmission it belongs to (Karn). A completion does say so, so late completions count, too, and
// show that the lease was too short. The space doubles a lease after an expiry (PROTOCOL.md).
//
// Pure: no clock. For one thread.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "acan/core/task.h"

namespace acan {

// What determines how long a task takes.
struct Work {
  TaskKind kind = TaskKind::kForward;
  std::uint64_t flops = 0;
  std::uint64_t leaving_bytes = 0;  // results that may not stay on the device
};
Work WorkOf(const Task& task);

inline constexpr std::int64_t kFirstLeaseUs = 2'000'000;  // before anything is learned
inline constexpr std::int64_t kMinLeaseUs = 200'000;      // shorter: busy machines look hung
inline constexpr std::int64_t kMaxLeaseUs = 600'000'000;  // ten minutes

class ResponseTimes {
 public:
  void Note(const Work& work, std::int64_t took_us);
  // Between kMinLeaseUs and kMaxLeaseUs.
  std::int64_t LeaseUs(const Work& work) const;
  // Smoothed over all tasks in the order of their ends; 0 before the first.
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
