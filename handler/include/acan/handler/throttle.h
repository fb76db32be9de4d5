// Throttle: makes a device as slow as one of so many GFLOP/s, for experiments with unequal handlers
// on one machine. A task takes as long as its operations (core/task.h, Flops) at that speed, or
// longer if the device itself is slower; the rest of the time the handler sleeps. So the speed does
// not depend on what else the machine does, as long as there is enough of it.
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
  // One speed for ever, or several in turn, each for `period_us` of the wall clock, so that a
  // handler that is started again goes on with the same plan. REQUIRES: each above 0, `period_us`
  // above 0 if there are several.
  Throttle(std::vector<double> gflops, std::int64_t period_us);
  // "2.5" or "1,5,10@5s" (also ms). nullopt with `problem`: what would be right.
  static std::optional<Throttle> Parse(const std::string& text, std::string* problem);

  double GflopsAt(std::int64_t unix_us) const;
  double MeanGflops() const;
  // When a task that begins at `unix_us` ends at the earliest.
  std::int64_t EndUs(std::int64_t unix_us, std::uint64_t flops) const;

 private:
  std::size_t IndexAt(std::int64_t unix_us) const;

  std::vector<double> gflops_;
  std::int64_t period_us_;
};

}  // namespace acan
