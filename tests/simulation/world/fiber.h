// Fiber: a function with its own stack that can stop in the middle and continue later. All fibers
// of a simulation run on one thread, one at a time. So nothing happens between two operations of a
// fiber unless the simulation chose it.
#pragma once

#include <functional>
#include <memory>

namespace acan::simulation {

class Fiber {
 public:
  // `body` runs at the first Resume. It must not throw.
  explicit Fiber(std::function<void()> body);
  ~Fiber();  // REQUIRES: done() or never resumed
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the fiber until it yields or ends. Fibers may resume others. REQUIRES: !done(), not
  // running.
  void Resume();
  bool done() const;
  bool begun() const;

  static void Yield();  // REQUIRES: within a fiber

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace acan::simulation
