#include "task_overhead.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>

#include "tuplespace/clock.h"

namespace acan {
namespace {

constexpr int kRoundTrips = 16;
constexpr std::chrono::milliseconds kBetweenRoundTrips(1);  // long enough for threads to block
// The processor work for a task that is not waiting: messages, matching, mapping and hashing
// inputs.
constexpr double kTaskWorkUs = 80;
constexpr double kRoundTripsOfTask = 3;

}  // namespace

// A task's overhead is mostly the waking of other threads: about three times the two wake-ups of a
// round trip, with the handler's device, the next handler and the manager. All of them have blocked
// between two tasks, as they do between these round trips. The minimum is that of an idle machine,
// which the plan should assume.
double MeasureTaskOverheadUs(RunContext& context, Leadership& leadership) {
  double least_us = 0;
  for (int i = 0; i < kRoundTrips; ++i) {
    context.client.Poll(kBetweenRoundTrips);
    const auto answered = std::make_shared<bool>(false);  // the answer may arrive after a throw
    const std::int64_t begin_us = tuplespace::MonotonicUs();
    context.client.Submit(tuplespace::GetStats{},
                          [answered](tuplespace::ReplyBody&&) { *answered = true; });
    while (!*answered) leadership.PollOnce();
    const auto took_us = static_cast<double>(tuplespace::MonotonicUs() - begin_us);
    least_us = i == 0 ? took_us : std::min(least_us, took_us);
  }
  return kTaskWorkUs + kRoundTripsOfTask * least_us;
}

}  // namespace acan
