// Suspension: whether a process is stopped by SIGSTOP, and the events that it must handle later.
// Owned by a BrokerHost; used only on the world's thread.
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace acan::simulation {

class Suspension {
 public:
  bool on() const { return on_; }
  void Begin() { on_ = true; }
  // REQUIRES: on().
  void Defer(std::function<void()> what) { waiting_.push_back(std::move(what)); }
  // Runs the deferred events in order. REQUIRES: on().
  void End() {
    on_ = false;
    for (const auto& what : std::exchange(waiting_, {})) what();
  }
  // Drops the deferred events, since another process begins.
  void Forget() {
    on_ = false;
    waiting_.clear();
  }

 private:
  bool on_ = false;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace acan::simulation
