// Which handlers a plan counts on if some are far slower than others.
//
// In each stage of a step, the slowest handler may hold the last task while all others wait. If it
// is a hundred times slower than another one, it holds up the step for longer than it helps, unless
// the tasks are so small that their number costs more. So plans are compared for the fastest
// handlers alone, and with the slower ones.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "acan/core/names.h"

namespace acan {

// A plan is made for each of them, which takes time.
inline constexpr std::size_t kMaxSpeedSets = 4;

// The fastest set first. Each adds slower handlers to those before, and the last one has all.
// Handlers whose speeds differ by less than a factor of four are in the same sets.
// REQUIRES: `handlers` is not empty.
std::vector<std::map<std::string, Capacity>> SetsBySpeed(
    const std::map<std::string, Capacity>& handlers);
// As above, with `speeds` = PresentSpeeds(handlers).
std::vector<std::map<std::string, Capacity>> SetsBySpeed(
    const std::map<std::string, Capacity>& handlers, const std::map<std::string, double>& speeds);

// The index of the set with which a step is shortest. A set with slower handlers must be faster by
// more than the estimate's error. `step_us` estimates a step's time with the set of an index;
// infinite: the set cannot run the step. The last index if none can.
std::size_t BestSet(const std::vector<std::map<std::string, Capacity>>& sets,
                    const std::function<double(std::size_t)>& step_us);

}  // namespace acan
