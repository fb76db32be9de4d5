// The threads of a DeviceThread. What they do is in device_thread.cpp.
#include <algorithm>

#include "device_thread.h"

namespace acan {
namespace {

constexpr std::size_t kMostStarted = 2;
constexpr std::int64_t kGoUs = 200;  // then messages are looked at

}  // namespace

DeviceThread::DeviceThread(Device& device, std::function<void()> wake, const Throttle* throttle)
    : device_(device),
      wake_(std::move(wake)),
      throttle_(throttle),
      starter_([this] { StartLoop(); }),
      finisher_([this] { FinishLoop(); }) {}

DeviceThread::~DeviceThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  result_.notify_all();
  stopping_.notify_all();
  starter_.join();
  finisher_.join();
}

void DeviceThread::Enqueue(DeviceJob job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
}

// REQUIRES: the lock is held.
void DeviceThread::NoteStart() {
  if (!IsBusy()) busy_since_us_ = NowUs();
  starting_ = true;
}

bool DeviceThread::Go() {
  const std::int64_t until_us = NowUs() + kGoUs;
  std::unique_lock lock(mutex_);
  while (!jobs_.empty() && !starting_) {
    if (!RunsHere(jobs_.front())) {
      work_.notify_one();
      return false;
    }
    if (NowUs() >= until_us) return true;
    DeviceJob job = std::move(jobs_.front());
    jobs_.pop_front();
    NoteStart();
    lock.unlock();
    Started started = Start(std::move(job));
    const bool ready = started.at_once;
    if (ready) Conclude(started);
    lock.lock();
    starting_ = false;
    if (!ready) {
      started_.push_back(std::move(started));
      result_.notify_one();
    }
  }
  return false;
}

void DeviceThread::StartLoop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] {
      return stop_ || (!jobs_.empty() && !starting_ &&
                       started_.size() + (finishing_ ? 1 : 0) < kMostStarted);
    });
    if (stop_) return;
    DeviceJob job = std::move(jobs_.front());
    jobs_.pop_front();
    NoteStart();
    lock.unlock();
    Started started = Start(std::move(job));
    if (started.at_once) {
      Finish(std::move(started));
      lock.lock();
      starting_ = false;
      continue;
    }
    lock.lock();
    starting_ = false;
    started_.push_back(std::move(started));
    result_.notify_one();
  }
}

void DeviceThread::FinishLoop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    result_.wait(lock, [this] { return stop_ || !started_.empty(); });
    if (stop_) return;
    Started started = std::move(started_.front());
    started_.pop_front();
    finishing_ = true;
    lock.unlock();
    Finish(std::move(started));
    lock.lock();
    finishing_ = false;
    work_.notify_one();
  }
}

}  // namespace acan
