#include "acan/manager/worker_thread.h"

#include <cassert>
#include <thread>
#include <utility>

namespace acan {

struct WorkerThread::Impl {
  std::thread thread;
};

WorkerThread::WorkerThread() : impl_(std::make_unique<Impl>()) {}

WorkerThread::~WorkerThread() {
  Join();
}

void WorkerThread::Start(std::function<void()> work) {
  assert(!impl_->thread.joinable());
  impl_->thread = std::thread(std::move(work));
}

void WorkerThread::Join() {
  if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace acan
