// SpeedWatch: notices that a device has become much slower or faster since its speed was measured,
// for example because someone plays a game on its host.
//
// Kinds of tasks differ in how well they use a device. So each kind is compared only with itself:
// the first window of time in which it takes part shows its usual time. Later windows compare all
// tasks that end in them with their usual times. If two windows in a row differ by kChange from the
// speed that was announced, and that is at least kHoldUs old, the later one is announced.
//
// The first window may itself have been slow. So a speed above that of the measurement is announced
// only as far as the tasks of a window have reached it. Otherwise the present times become the
// usual ones.
//
// A slow handler may get no task, and then would not notice that it is fast again. So after a while
// without enough tasks it announces its usual speed. If it is still slow, the next such pause is
// twice as long.
//
// Pure: no clock. For one thread.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "acan/core/task.h"

namespace acan {

// A task, as far as its time depends on it.
struct WatchedTask {
  // Equal for tasks that should take equally long: of the same purpose, precision, number of calls
  // and number of operations.
  std::uint64_t kind = 0;
  std::uint64_t exact_flops = 0;  // 0: not exact, which may be faster than the measured product
};
// `flops`: Flops(task). The kind of a task without operations is 0; its time says nothing.
WatchedTask WatchedTaskOf(const Task& task, std::uint64_t flops);

class SpeedWatch {
 public:
  static constexpr std::int64_t kWindowUs = 5'000'000;
  static constexpr double kMinBusyUs = 500e3;  // of a window that says something
  static constexpr double kChange = 2;
  static constexpr std::int64_t kHoldUs = 60'000'000;
  static constexpr std::int64_t kForgetUs = 60'000'000;
  static constexpr std::int64_t kMaxForgetUs = 16 * kForgetUs;

  // `gflops`: as measured.
  explicit SpeedWatch(double gflops) : gflops_(gflops) {}

  // The device's speed as a multiple of the measured one.
  double speed() const { return speed_; }
  // The device computed for `took_us` until now. Returns whether speed() has changed.
  bool Note(const WatchedTask& task, std::int64_t took_us, std::int64_t now_us);
  // To be called about once a second. Returns whether speed() has changed.
  bool Forget(std::int64_t now_us);

 private:
  struct Sum {
    double us = 0;
    double tasks = 0;
  };
  struct Window {
    std::int64_t begin_us = 0;
    double usual_us = 0, took_us = 0;  // of tasks with a known usual time
    double busy_us = 0, exact_flops = 0;
    std::unordered_map<std::uint64_t, Sum> fresh;  // other tasks, by kind
  };
  enum class Trend : std::uint8_t { kNone, kSlower, kFaster };

  bool EndWindow(const Window& window, std::int64_t now_us);
  void Learn(const Window& window, double speed);
  double Proven(const Window& window, double speed);

  const double gflops_;
  double speed_ = 1;
  std::unordered_map<std::uint64_t, double> usual_us_;  // of a task, by kind, at speed 1
  Window window_;                                       // empty if busy_us is 0
  Trend trend_ = Trend::kNone;                          // of the last window
  std::int64_t compared_us_ = 0;                        // when a window last said something
  std::int64_t hold_until_us_ = 0;
  std::int64_t forget_us_ = kForgetUs;
};

}  // namespace acan
