// DevicePipeline: the state of each task on a device: it waits, its operations are being called, or
// its results are pending. One task is started at a time, and one more may be started while the
// results of another are pending. Pure: no thread, clock or device. Owned by a DeviceThread and
// guarded by its lock.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/task.h"
#include "acan/handler/handler_core.h"
#include "executor.h"

namespace acan {

// A task for the device.
struct DeviceJob {
  FlightId flight = 0;
  std::shared_ptr<const Task> task;
  std::vector<TaskInput> inputs;
  std::optional<std::size_t> keep_input;
  std::uint64_t waiting_bytes = 0;  // payloads that are not counted in the device's budget
  std::int64_t added_us = 0;        // set by DeviceThread::Add
  bool resident = false;            // keep those results on the device that may stay there
  std::uint64_t keeps_from_bytes = UINT64_MAX;  // see StartTaskOn
  std::uint64_t flops = 0;                      // Flops(*task)
};

// The result of a DeviceJob.
struct DeviceOutcome {
  FlightId flight = 0;
  bool failed = false;
  bool lost = false;  // failed, and everything else on this device will fail, too
  std::string cause;
  std::vector<TaskResult> results;
  BufferPtr kept_input;
  double seconds = 0;
};

// A task whose operations were called.
struct StartedTask {
  DeviceOutcome outcome;
  StartedResults results;
  std::int64_t begin_us = 0;
  std::int64_t added_us = 0;
  TaskKind kind = TaskKind::kForward;
  std::uint64_t flops = 0;
  bool at_once = false;  // its results were complete when its operations had been called
};

class DevicePipeline {
 public:
  void Add(DeviceJob job) { waiting_.push_back(std::move(job)); }
  // Returns the waiting tasks, which will not run.
  std::deque<DeviceJob> TakeBack() { return std::exchange(waiting_, {}); }

  // The task to start next; null: none waits, or one is being started.
  const DeviceJob* Next() const {
    return waiting_.empty() || starting_ ? nullptr : &waiting_.front();
  }
  // Whether there is one, and few enough tasks have pending results.
  bool MayStartNext() const { return Next() != nullptr && CountOfStarted() < kMaxStarted; }
  // REQUIRES: Next().
  DeviceJob StartNext(std::int64_t now_us);
  // Its operations were called, and its results are pending.
  void OnStarted(StartedTask task);
  // Its operations were called, and its results were complete at once.
  void OnStartedAndFinished() { starting_ = false; }

  bool AwaitsResults() const { return CountOfStarted() > 0; }
  // Whether there is a started task whose results can be waited for.
  bool HasStarted() const { return !started_.empty(); }
  // REQUIRES: HasStarted().
  StartedTask TakeStarted();
  void OnFinished() { finishing_ = false; }

  // A task that began at `begin_us` ended. Returns the time from which it counts: where two tasks
  // overlap, the time counts only once.
  std::int64_t OnEnded(std::int64_t begin_us, std::int64_t end_us);
  // Whether a task begins now that one has ended.
  bool GoesOn() const { return !waiting_.empty() && !AwaitsResults(); }
  // Since when it has finished no task although it has begun one; nullopt: it is idle.
  std::optional<std::int64_t> BusySinceUs() const;

 private:
  static constexpr std::size_t kMaxStarted = 2;

  std::size_t CountOfStarted() const { return started_.size() + (finishing_ ? 1 : 0); }
  bool IsBusy() const { return starting_ || AwaitsResults(); }

  std::deque<DeviceJob> waiting_;
  bool starting_ = false;  // operations of a task are being called
  std::deque<StartedTask> started_;
  bool finishing_ = false;  // a thread waits for the results of a task
  std::int64_t last_end_us_ = 0;
  std::int64_t busy_since_us_ = 0;  // while busy: when that began, or a task last ended
};

}  // namespace acan
