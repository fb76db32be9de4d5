#include "device_thread.h"

#include <algorithm>
#include <chrono>

namespace acan {

std::int64_t NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

DeviceThread::DeviceThread(Device& device, std::function<void()> wake)
    : device_(device), wake_(std::move(wake)), thread_([this] { Loop(); }) {}

DeviceThread::~DeviceThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ready_.notify_one();
  thread_.join();
}

void DeviceThread::Add(DeviceJob job) {
  waiting_bytes_.fetch_add(job.waiting_bytes, std::memory_order_relaxed);
  NotePeak();
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  ready_.notify_one();
}

std::deque<DeviceOutcome> DeviceThread::TakeOutcomes() {
  const std::lock_guard lock(mutex_);
  return std::exchange(outcomes_, {});
}

std::vector<FlightId> DeviceThread::TakeBack() {
  const std::lock_guard lock(mutex_);
  std::vector<FlightId> flights;
  for (const DeviceJob& job : jobs_) {
    flights.push_back(job.flight);
    waiting_bytes_.fetch_sub(job.waiting_bytes, std::memory_order_relaxed);
  }
  jobs_.clear();
  return flights;
}

std::uint64_t DeviceThread::peak_bytes() const {
  return std::max(peak_bytes_.load(std::memory_order_relaxed), device_.budget().peak_bytes());
}

void DeviceThread::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ready_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    DeviceJob job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    DeviceOutcome outcome = Run(std::move(job));
    lock.lock();
    outcomes_.push_back(std::move(outcome));
    lock.unlock();
    wake_();
    lock.lock();
  }
}

DeviceOutcome DeviceThread::Run(DeviceJob job) {
  DeviceOutcome outcome;
  outcome.flight = job.flight;
  const std::int64_t begin_us = NowUs();
  try {
    outcome.results = RunTaskOn(device_, *job.task, job.inputs);
    if (job.keep_input) outcome.kept_input = job.inputs[*job.keep_input].buffer;
    NotePeak();
  } catch (const std::exception& error) {
    outcome.failed = true;
    outcome.lost = dynamic_cast<const DeviceLost*>(&error) != nullptr;
    outcome.cause = error.what();
    outcome.results.clear();
  }
  outcome.seconds = static_cast<double>(NowUs() - begin_us) * 1e-6;
  waiting_bytes_.fetch_sub(job.waiting_bytes, std::memory_order_relaxed);
  return outcome;  // the inputs go here, before anybody hears of the outcome
}

void DeviceThread::NotePeak() {
  const std::uint64_t held =
      device_.budget().used_bytes() + waiting_bytes_.load(std::memory_order_relaxed);
  std::uint64_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (peak < held && !peak_bytes_.compare_exchange_weak(peak, held)) {
  }
}

}  // namespace acan
