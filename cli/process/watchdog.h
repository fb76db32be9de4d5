// Watchdog: says when a thread does not come round any more. What it waits for then has no bound
// that the program could set: a disk or a file server, a device's driver, the processor.
#pragma once

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
    std::string what;  // does not come round: "the manager"
    std::string why;   // probably: "a disk or a file server does not answer"
    std::function<void(const std::string& line)> say;  // on a thread of the watchdog
    std::chrono::milliseconds patience{8'000};
    std::chrono::milliseconds again{30'000};
    std::chrono::milliseconds look_every{1'000};
  };
  explicit Watchdog(Options options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void Beat();  // thread safe: it has come round

 private:
  using Clock = std::chrono::steady_clock;
  void Watch();

  const Options options_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  bool stop_ = false;
  bool beaten_ = false;  // since it was looked at
  std::thread thread_;
};

}  // namespace acan::cli
