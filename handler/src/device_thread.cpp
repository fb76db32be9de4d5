#include "device_thread.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tuplespace/clock.h"

namespace acan {
namespace {

// Telling costs as much as a short task.
constexpr std::int64_t kTellWithinUs = 200;

void SetFailed(DeviceOutcome& outcome, const std::exception& error) {
  outcome.failed = true;
  outcome.lost = dynamic_cast<const DeviceLost*>(&error) != nullptr;
  outcome.cause = error.what();
  outcome.results.clear();
  outcome.kept_input.reset();
}

}  // namespace

std::int64_t NowUs() {
  return tuplespace::MonotonicUs();
}

void DeviceThread::Add(DeviceJob job) {
  waiting_bytes_.fetch_add(job.waiting_bytes, std::memory_order_relaxed);
  NotePeak();
  job.added_us = NowUs();
  Enqueue(std::move(job));
}

std::deque<DeviceOutcome> DeviceThread::TakeOutcomes() {
  const std::lock_guard lock(mutex_);
  untold_since_us_ = kNothingUntold;
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

std::optional<std::int64_t> DeviceThread::BusySinceUs() const {
  const std::lock_guard lock(mutex_);
  if (!IsBusy()) return std::nullopt;
  return busy_since_us_;
}

std::uint64_t DeviceThread::peak_bytes() const {
  return std::max(peak_bytes_.load(std::memory_order_relaxed), device_.budget().peak_bytes());
}

// By what the last one of its kind took.
bool DeviceThread::IsShort(const DeviceJob& job) const {
  const std::optional<Took>& took = took_.at(static_cast<std::size_t>(job.task->kind));
  if (!took) return false;
  const double us_per_flop = static_cast<double>(took->us) / static_cast<double>(took->flops);
  return static_cast<double>(Flops(*job.task)) * us_per_flop < kTellWithinUs;
}

bool DeviceThread::RunsHere(const DeviceJob& job) const {
  return throttle_ == nullptr && started_.empty() && !finishing_ && IsShort(job) &&
         took_.at(static_cast<std::size_t>(job.task->kind))->at_once;
}

// Outcomes that nobody was told of do not wait for a long task.
void DeviceThread::TellBefore(const DeviceJob& job) {
  {
    const std::lock_guard lock(mutex_);
    if (untold_since_us_ == kNothingUntold || IsShort(job)) return;
    untold_since_us_ = kNothingUntold;
  }
  wake_();
}

DeviceThread::Started DeviceThread::Start(DeviceJob job) {
  TellBefore(job);
  Started started;
  started.outcome.flight = job.flight;
  started.begin_us = NowUs();
  started.added_us = job.added_us;
  started.kind = job.task->kind;
  started.flops = std::max<std::uint64_t>(1, Flops(*job.task));
  if (job.keep_input) started.outcome.kept_input = job.inputs[*job.keep_input].buffer;
  const auto stop_waiting = [&] {
    waiting_bytes_.fetch_sub(std::exchange(job.waiting_bytes, 0), std::memory_order_relaxed);
  };
  try {
    std::vector<BufferPtr> buffers =
        GatherInputs(device_, *job.task, std::move(job.inputs), job.resident);
    NotePeak();
    stop_waiting();
    started.results = StartTaskOn(device_, *job.task, std::move(buffers), job.resident);
    NotePeak();
  } catch (const std::exception& error) {
    SetFailed(started.outcome, error);
  }
  stop_waiting();
  started.at_once = std::all_of(started.results.begin(), started.results.end(),
                                [](const StartedResult& each) { return each.payload->ready(); });
  return started;
}

void DeviceThread::Finish(Started started) {
  if (Conclude(started)) wake_();
}

// Waits for its results and adds them to the outcomes. True if somebody is to be told.
bool DeviceThread::Conclude(Started& started) {
  DeviceOutcome& outcome = started.outcome;
  if (!outcome.failed) {
    try {
      outcome.results = FinishResults(std::move(started.results));
    } catch (const std::exception& error) {
      SetFailed(outcome, error);
    }
  }
  started.results.clear();
  if (throttle_ != nullptr && !outcome.failed) SleepUntilDue(started);
  const std::lock_guard lock(mutex_);
  // Of the time in which two tasks ran each second counts once.
  const std::int64_t end_us = NowUs();
  const std::int64_t begin_us = std::max(started.begin_us, last_end_us_);
  outcome.seconds = static_cast<double>(end_us - begin_us) * 1e-6;
  last_end_us_ = busy_since_us_ = end_us;
  if (!outcome.failed) {
    took_.at(static_cast<std::size_t>(started.kind)) = {
        std::max<std::int64_t>(1, end_us - begin_us), started.flops, started.at_once};
  }
  outcomes_.push_back(std::move(outcome));
  if (untold_since_us_ == kNothingUntold) untold_since_us_ = begin_us;
  const bool more = !jobs_.empty() && started_.empty() && !finishing_;  // and it begins now
  const bool tell = !more || end_us - untold_since_us_ >= kTellWithinUs;
  if (tell) untold_since_us_ = kNothingUntold;
  return tell;
}

// As if the device were as slow as the throttle says. Ends early if the thread is to end.
void DeviceThread::SleepUntilDue(const Started& started) {
  std::unique_lock lock(mutex_);
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t ahead_us =
      std::chrono::duration_cast<std::chrono::microseconds>(wall).count() - NowUs();
  // A task that waited begins when the one before it was due: late wake-ups must not add up.
  const std::int64_t begin_us = std::max(started.added_us, due_us_);
  due_us_ = throttle_->EndUs(begin_us + ahead_us, started.flops) - ahead_us;
  const std::chrono::steady_clock::time_point due{std::chrono::microseconds(due_us_)};
  stopping_.wait_until(lock, due, [this] { return stop_; });
}

void DeviceThread::NotePeak() {
  const std::uint64_t held =
      device_.budget().used_bytes() + waiting_bytes_.load(std::memory_order_relaxed);
  std::uint64_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (peak < held && !peak_bytes_.compare_exchange_weak(peak, held)) {
  }
}

}  // namespace acan
