#include "device/thread_pool.h"

#include <cassert>

#include "acan/core/ieee_mode.h"

namespace acan::cpu {

ThreadPool::ThreadPool(int threads) {
  assert(threads >= 1);
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int i = 1; i < threads; ++i) {
      workers_.emplace_back([this, i] { Work(i); });
    }
  } catch (...) {
    Stop();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  Stop();
}

void ThreadPool::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::TakeParts(int thread) {
  const IeeeMode ieee;
  for (int part = next_.fetch_add(1); part < parts_; part = next_.fetch_add(1)) {
    (*body_)(part, thread);
  }
}

void ThreadPool::Run(int parts, const std::function<void(int, int)>& body) {
  assert(parts >= 0);
  if (parts <= 1 || workers_.empty()) {
    const IeeeMode ieee;
    for (int part = 0; part < parts; ++part) body(part, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    parts_ = parts;
    next_.store(0);
    busy_ = static_cast<int>(workers_.size());
    ++round_;
  }
  start_.notify_all();
  TakeParts(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void ThreadPool::Work(int thread) {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    start_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    lock.unlock();
    TakeParts(thread);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace acan::cpu
