// The threads of a DeviceThread. device_thread.cpp has their work.
#include <algorithm>

#include "device_thread.h"
#include "tuplespace/clock.h"

namespace acan {

using tuplespace::MonotonicUs;

namespace {

constexpr std::int64_t kShortTasksUs = 200;  // then the handler checks for messages

}  // namespace

DeviceThread::DeviceThread(Device& device, std::function<void()> wake, const Throttle* throttle)
    : device_(device),
      wake_(std::move(wake)),
      held_(device.budget()),
      throttled_(throttle),
      starter_([this] { StartLoop(); }) {
  try {
    finisher_ = std::thread([this] { FinishLoop(); });
  } catch (...) {
    Stop();
    throw;
  }
}

DeviceThread::~DeviceThread() {
  Stop();
}

void DeviceThread::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  result_.notify_all();
  stopping_.notify_all();
  starter_.join();
  if (finisher_.joinable()) finisher_.join();
}

void DeviceThread::Enqueue(DeviceJob job) {
  {
    const std::lock_guard lock(mutex_);
    pipeline_.Add(std::move(job));
    // A short task waits for RunShortTasks, which runs it here.
    if (pipeline_.Next() == nullptr || RunsHere(*pipeline_.Next())) return;
  }
  work_.notify_one();
}

bool DeviceThread::RunShortTasks() {
  const std::int64_t until_us = MonotonicUs() + kShortTasksUs;
  std::unique_lock lock(mutex_);
  while (const DeviceJob* next = pipeline_.Next()) {
    if (!RunsHere(*next)) {
      work_.notify_one();
      return false;
    }
    if (MonotonicUs() >= until_us) return true;
    DeviceJob job = pipeline_.StartNext(MonotonicUs());
    lock.unlock();
    StartedTask started = Start(std::move(job));
    const bool ready = started.at_once;
    if (ready) Conclude(started);
    lock.lock();
    if (ready) {
      pipeline_.OnStartedAndFinished();
    } else {
      pipeline_.OnStarted(std::move(started));
      result_.notify_one();
    }
  }
  return false;
}

void DeviceThread::StartLoop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stop_ || pipeline_.MayStartNext(); });
    if (stop_) return;
    DeviceJob job = pipeline_.StartNext(MonotonicUs());
    lock.unlock();
    StartedTask started = Start(std::move(job));
    if (started.at_once) {
      Finish(std::move(started));
      lock.lock();
      pipeline_.OnStartedAndFinished();
      continue;
    }
    lock.lock();
    pipeline_.OnStarted(std::move(started));
    result_.notify_one();
  }
}

void DeviceThread::FinishLoop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    result_.wait(lock, [this] { return stop_ || pipeline_.HasStarted(); });
    if (stop_) return;
    StartedTask started = pipeline_.TakeStarted();
    lock.unlock();
    Finish(std::move(started));
    lock.lock();
    pipeline_.OnFinished();
    work_.notify_one();
  }
}

}  // namespace acan
