// Throttle: makes a device as slow as one of a given number of GFLOP/s, for experiments with
// unequal handlers on one machine. A task takes as long as its operations (core/task.h, Flops) at
// that speed, or longer if the device itself is slower; the handler sleeps for the rest of the
// time. So the speed does not depend on the machine's other work as long as the device is fast
// enough.
//
// Pure: no clock. Immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace acan {

class Throttle {
 public:
  // One constant speed, or several in turn, each for `period_us` of the wall clock, so that a
  // restarted handler continues the same schedule. REQUIRES: each is above 0; `period_us` is above
  // 0 if there are several.
  Throttle(std::vector<double> gflops, std::int64_t period_us);
  // Parses "2.5" or "1,5,10@5s" (also ms). nullopt: `problem` says what would be right.
  static std::optional<Throttle> Parse(const std::string& text, std::string* problem);

  double GflopsAt(std::int64_t unix_us) const;
  double MeanGflops() const;
  // The earliest time at which a task that begins at `unix_us` ends.
  std::int64_t EndUs(std::int64_t unix_us, std::uint64_t flops) const;

 private:
  std::size_t IndexAt(std::int64_t unix_us) const;

  std::vector<double> gflops_;
  std::int64_t period_us_;
};

}  // namespace acan
