// Watchdog: reports that a thread's loop makes no progress. The thread then waits for something
// that the program cannot bound: a disk or a file server, a device's driver, the processor.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace acan::cli {

class Watchdog {
 public:
  struct Options {
    std::string what;  // the subject of the report: "the manager"
    std::string why;   // the probable cause: "a disk or a file server does not answer"
    std::function<void(const std::string& line)> say;  // on a thread of the watchdog
    std::chrono::milliseconds patience{8'000};
    std::chrono::milliseconds again{30'000};
    std::chrono::milliseconds look_every{1'000};
  };
  // Reports on stderr, for commands without a log.
  static Options OnStderr(std::string what, std::string why);

  explicit Watchdog(Options options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Thread safe: the loop has come round once more. Never waits for `say`.
  void Beat();

 private:
  using Clock = std::chrono::steady_clock;
  void Watch();

  const Options options_;
  std::atomic<bool> beaten_{false};  // since the last look
  std::mutex mutex_;                 // guards stop_; held while `say` runs
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace acan::cli
