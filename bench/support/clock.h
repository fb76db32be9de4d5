// The real time that all benchmarks use.
#pragma once

#include <chrono>

namespace acan::bench {

using Clock = std::chrono::steady_clock;

inline double Seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Seconds since some moment in the past.
inline double NowS() {
  return Seconds(Clock::now().time_since_epoch());
}

}  // namespace acan::bench
