// A few threads that run the parts of one call and sleep between calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace acan::cpu {

// Used by one thread at a time.
class ThreadPool {
 public:
  // `threads` counts the calling thread: threads - 1 are started. Throws std::system_error if the
  // system refuses one of them.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(part, thread) for every part in [0, parts), with thread in [0, threads()). The calls
  // for one value of `thread` never overlap. Returns when all are done. `body` must not throw.
  void Run(int parts, const std::function<void(int part, int thread)>& body);

 private:
  void Stop();  // waits for the workers that were started
  void Work(int thread);
  void TakeParts(int thread);

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  std::uint64_t round_ = 0;
  int busy_ = 0;
  bool stop_ = false;
  const std::function<void(int, int)>* body_ = nullptr;
  int parts_ = 0;
  std::atomic<int> next_{0};
  std::vector<std::thread> workers_;
};

}  // namespace acan::cpu
