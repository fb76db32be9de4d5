// Fiber: a function with a stack of its own that can stop in the middle and go on later. All fibers
// of a simulation run on one thread, one at a time, so nothing happens between two of its
// operations that the simulation did not choose.
#pragma once

#include <functional>
#include <memory>

namespace acan::simulation {

class Fiber {
 public:
  // `body` runs at the first Resume. It must not let an exception out.
  explicit Fiber(std::function<void()> body);
  ~Fiber();  // REQUIRES: done() or never resumed
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs it until it yields or ends. Fibers may resume others. REQUIRES: !done(), not running.
  void Resume();
  bool done() const;
  bool begun() const;

  static void Yield();  // REQUIRES: within a fiber

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace acan::simulation
