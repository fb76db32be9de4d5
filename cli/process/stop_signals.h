// StopSignals: turns SIGINT, SIGTERM and SIGHUP into calls on a separate thread, so that the called
// code need not be async-signal-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

namespace acan::cli {

// Whoever stops all processes of a job and then each of them, as a batch system and its script do,
// sends a second SIGTERM within this time and means the first.
constexpr std::chrono::seconds kRepeatedStop{2};

class StopSignals {
 public:
  enum class Mode {
    kAll,  // SIGINT, SIGTERM, and SIGHUP unless it was ignored when the process began, as by nohup
    // Of a child (child.h): EndChildSignal, and SIGTERM if it comes twice. All other signals that a
    // terminal, a service manager or an administrator sends to all processes of a command are left
    // to the parent.
    kOfChild,
  };
  // Installs handlers for the signals and watches for them. One object at a time. While nothing is
  // guarded, a signal ends the process immediately with 128 + its number.
  explicit StopSignals(Mode mode);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  struct Actions {
    std::function<void()> stop;
    std::function<void()> kill;
  };
  // From now on, the first signal calls `stop` (immediately if it has already come). The second
  // calls `kill` and then ends the process with 128 + its number. A SIGTERM within kRepeatedStop
  // of a first SIGTERM is the same request and does nothing. Both run on the watching thread.
  // Returns the actions guarded before; when Guard returns, those are not running and will not run
  // any more. Empty functions end the guard.
  Actions Guard(Actions actions);

  // The first signal received, or 0.
  int received() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Guards for a scope; afterwards the previous guard is restored.
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
