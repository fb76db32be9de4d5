// WorkerThread: a thread for one piece of work at a time. It is the manager's only interface to
// threads, so that a simulation can run the work on its own single thread.
#pragma once

#include <functional>
#include <memory>

namespace acan {

class WorkerThread {
 public:
  WorkerThread();
  ~WorkerThread();  // joins
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  // REQUIRES: nothing runs (it was joined). `work` does not throw.
  void Start(std::function<void()> work);
  void Join();  // does nothing if nothing was started

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace acan
