// StopSignals: SIGINT, SIGTERM and SIGHUP as calls on a thread of their own, so that what they call
// needs not be async-signal safe.
#pragma once

#include <functional>
#include <memory>

namespace acan::cli {

class StopSignals {
 public:
  enum class Mode {
    kAll,            // SIGINT, SIGTERM and SIGHUP
    kTerminateOnly,  // SIGTERM: a terminal's signals are the parent's to act on
  };
  // Takes over the signals and watches for them. One object at a time. While nothing is guarded a
  // signal ends the process at once with 128 + its number.
  explicit StopSignals(Mode mode);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // From now on the first signal calls `stop` and the second `kill` and then ends the process with
  // 128 + its number. Both run on the watching thread.
  void Guard(std::function<void()> stop, std::function<void()> kill);
  // Ends the guard. When it returns neither function is running or will run.
  void Release();

  // The first signal that came, or 0.
  int received() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Guards for a scope.
class StopGuard {
 public:
  StopGuard(StopSignals& signals, std::function<void()> stop, std::function<void()> kill)
      : signals_(signals) {
    signals_.Guard(std::move(stop), std::move(kill));
  }
  ~StopGuard() { signals_.Release(); }
  StopGuard(const StopGuard&) = delete;
  StopGuard& operator=(const StopGuard&) = delete;

 private:
  StopSignals& signals_;
};

}  // namespace acan::cli
