// StopSignals: SIGINT, SIGTERM and SIGHUP as calls on a thread of their own, so that what they call
// needs not be async-signal safe.
#pragma once

#include <functional>
#include <memory>
#include <utility>

namespace acan::cli {

class StopSignals {
 public:
  enum class Mode {
    kAll,  // SIGINT, SIGTERM and SIGHUP
    // Of a child (child.h): EndChildSignal, and SIGTERM if it comes twice. What else a terminal, a
    // service manager or an administrator sends to all processes of a command is the parent's to
    // act on.
    kOfChild,
  };
  // Takes over the signals and watches for them. One object at a time. While nothing is guarded a
  // signal ends the process at once with 128 + its number.
  explicit StopSignals(Mode mode);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  struct Actions {
    std::function<void()> stop;
    std::function<void()> kill;
  };
  // From now on the first signal calls `stop` (at once if it has come already) and the second
  // `kill`, and then ends the process with 128 + its number. Both run on the watching thread.
  // Returns what was guarded before; when it returns that is not running and will not run any more.
  // Empty functions end the guard.
  Actions Guard(Actions actions);

  // The first signal that came, or 0.
  int received() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Guards for a scope, after which the guard before it holds again.
class StopGuard {
 public:
  StopGuard(StopSignals& signals, std::function<void()> stop, std::function<void()> kill)
      : signals_(signals), before_(signals.Guard({std::move(stop), std::move(kill)})) {}
  ~StopGuard() { signals_.Guard(std::move(before_)); }
  StopGuard(const StopGuard&) = delete;
  StopGuard& operator=(const StopGuard&) = delete;

 private:
  StopSignals& signals_;
  StopSignals::Actions before_;
};

}  // namespace acan::cli
