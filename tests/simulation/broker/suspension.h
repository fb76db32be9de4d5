// Suspension: a process that was stopped by SIGSTOP, and what came for it meanwhile. Owned by a
// BrokerHost; in the thread of the world.
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
  // Does what came meanwhile, in order. REQUIRES: on().
  void End() {
    on_ = false;
    for (const auto& what : std::exchange(waiting_, {})) what();
  }
  // Another process begins, for which nothing came.
  void Forget() {
    on_ = false;
    waiting_.clear();
  }

 private:
  bool on_ = false;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace acan::simulation
