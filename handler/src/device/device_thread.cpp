#include "device_thread.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tuplespace/clock.h"

namespace acan {

using tuplespace::MonotonicUs;

namespace {

void SetFailed(DeviceOutcome& outcome, const std::exception& error) {
  outcome.failed = true;
  outcome.lost = dynamic_cast<const DeviceLost*>(&error) != nullptr;
  outcome.cause = error.what();
  outcome.results.clear();
  outcome.kept_input.reset();
}

// A command that the failed task has started may fail, too, and the device would report that to the
// next task, whose own commands succeed.
void EndCommands(Device& device, DeviceOutcome& failed) {
  try {
    device.Synchronize();
  } catch (const DeviceLost& lost) {
    SetFailed(failed, lost);
  } catch (const std::exception&) {
    // The task has failed already.
  }
}

}  // namespace

void DeviceThread::Add(DeviceJob job) {
  held_.AddWaiting(job.waiting_bytes);
  job.added_us = MonotonicUs();
  Enqueue(std::move(job));
}

std::deque<DeviceOutcome> DeviceThread::TakeOutcomes() {
  const std::lock_guard lock(mutex_);
  return outcomes_.TakeAll();
}

std::vector<FlightId> DeviceThread::TakeBack() {
  const std::lock_guard lock(mutex_);
  std::vector<FlightId> flights;
  for (const DeviceJob& job : pipeline_.TakeBack()) {
    flights.push_back(job.flight);
    held_.RemoveWaiting(job.waiting_bytes);
  }
  return flights;
}

std::optional<std::int64_t> DeviceThread::BusySinceUs() const {
  const std::lock_guard lock(mutex_);
  return pipeline_.BusySinceUs();
}

std::uint64_t DeviceThread::peak_bytes() const {
  return held_.peak();
}

bool DeviceThread::IsShort(const DeviceJob& job) const {
  return times_.IsShorter(*job.task, job.flops, OutcomeQueue::kTellWithinUs);
}

bool DeviceThread::RunsHere(const DeviceJob& job) const {
  return !throttled_.IsOn() && !pipeline_.AwaitsResults() && IsShort(job) &&
         times_.EndsAtOnce(*job.task);
}

// Outcomes without a notification do not wait for a long task.
void DeviceThread::TellBefore(const DeviceJob& job) {
  {
    const std::lock_guard lock(mutex_);
    if (IsShort(job) || !outcomes_.TellOfAll()) return;
  }
  wake_();
}

StartedTask DeviceThread::Start(DeviceJob job) {
  TellBefore(job);
  StartedTask started;
  started.outcome.flight = job.flight;
  started.begin_us = MonotonicUs();
  started.added_us = job.added_us;
  started.kind = job.task->kind;
  started.flops = std::max<std::uint64_t>(1, job.flops);
  if (job.keep_input) started.outcome.kept_input = job.inputs[*job.keep_input].buffer;
  const auto stop_waiting = [&] { held_.RemoveWaiting(std::exchange(job.waiting_bytes, 0)); };
  try {
    std::vector<BufferPtr> buffers =
        GatherInputs(device_, *job.task, std::move(job.inputs), job.resident);
    held_.Look();
    stop_waiting();
    started.results =
        StartTaskOn(device_, *job.task, std::move(buffers), job.resident, job.keeps_from_bytes);
    held_.Look();
  } catch (const std::exception& error) {
    SetFailed(started.outcome, error);
    if (!started.outcome.lost) EndCommands(device_, started.outcome);
  }
  stop_waiting();
  started.at_once = started.results.ready();
  return started;
}

void DeviceThread::Finish(StartedTask started) {
  if (Conclude(started)) wake_();
}

// Waits for the task's results and adds them to the outcomes. True if the handler must be notified.
bool DeviceThread::Conclude(StartedTask& started) {
  DeviceOutcome& outcome = started.outcome;
  if (!outcome.failed) {
    try {
      outcome.results = FinishResults(std::move(started.results));
    } catch (const std::exception& error) {
      SetFailed(outcome, error);
    }
  }
  started.results = {};
  const std::int64_t computed_us = MonotonicUs();
  const bool throttled = throttled_.IsOn() && !outcome.failed;
  const std::int64_t slot_us = throttled ? SleepUntilDue(started) : 0;
  const std::lock_guard lock(mutex_);
  const std::int64_t end_us = throttled ? MonotonicUs() : computed_us;
  const std::int64_t begin_us = pipeline_.OnEnded(started.begin_us, end_us);
  // With a throttle, the time of the slower device: a late wake-up does not count as computing.
  const std::int64_t took_us =
      throttled ? std::max(computed_us - begin_us, slot_us) : end_us - begin_us;
  outcome.seconds = static_cast<double>(took_us) * 1e-6;
  if (!outcome.failed) times_.Note(started.kind, started.flops, took_us, started.at_once);
  outcomes_.Add(std::move(outcome), begin_us);
  return outcomes_.TellAfter(pipeline_.GoesOn(), end_us);
}

// Waits as if the device were as slow as the throttle. Returns how long it would have computed, in
// microseconds. Sleeps less if the thread must end.
std::int64_t DeviceThread::SleepUntilDue(const StartedTask& started) {
  std::unique_lock lock(mutex_);
  const std::int64_t ahead_us = tuplespace::UnixUs() - MonotonicUs();
  const ThrottleSchedule::Slot slot = throttled_.Next(started.added_us, started.flops, ahead_us);
  const std::chrono::steady_clock::time_point due{std::chrono::microseconds(slot.due_us)};
  stopping_.wait_until(lock, due, [this] { return stop_; });
  return slot.due_us - slot.begin_us;
}

}  // namespace acan
