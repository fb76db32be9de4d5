// DeviceThread: runs the tasks of a handler's device in order, while the handler's own thread talks
// to the space. An asynchronous device gets the next task while the results of one are pending; a
// second thread waits for these. A task that takes less time than waking another thread and being
// woken by it runs on the handler's own thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "acan/core/task.h"
#include "acan/handler/handler_core.h"
#include "acan/handler/throttle.h"
#include "device_pipeline.h"
#include "held_bytes.h"
#include "outcome_queue.h"
#include "task_times.h"
#include "throttle_schedule.h"

namespace acan {

// Runs a device's tasks on two threads: the starter starts them in order, and the finisher waits
// for the results of devices that compute asynchronously. Public methods are for the handler's
// thread, which also runs short tasks. `wake` is called on the starter or the finisher when there
// are outcomes: at once, or, while more short tasks wait, a fraction of a millisecond later for
// several.
class DeviceThread {
 public:
  // `throttle` (may be null) must outlive it. Throws std::system_error if the system refuses a
  // thread.
  DeviceThread(Device& device, std::function<void()> wake, const Throttle* throttle = nullptr);
  ~DeviceThread();  // waits for running tasks; drops the others
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  // Adds a task. The starter begins it at once unless RunShortTasks should run it, so the caller
  // may do other things before that.
  void Add(DeviceJob job);
  // Call this after Add, and until it returns false. Leaves added tasks to the starter, or runs
  // them here for a fraction of a millisecond. Returns whether tasks to run here are left.
  bool RunShortTasks();
  std::deque<DeviceOutcome> TakeOutcomes();
  // Jobs that have not begun; they will not run.
  std::vector<FlightId> TakeBack();
  // Since when it has finished no task although it has begun one; nullopt: it is idle.
  std::optional<std::int64_t> BusySinceUs() const;
  // Maximum held at once: the device's memory, and inputs that wait to be copied to it.
  std::uint64_t peak_bytes() const;

 private:
  void Stop();  // waits for the threads that were started
  void Enqueue(DeviceJob job);
  bool IsShort(const DeviceJob& job) const;
  bool RunsHere(const DeviceJob& job) const;
  void TellBefore(const DeviceJob& job);
  void StartLoop();
  void FinishLoop();
  StartedTask Start(DeviceJob job);
  void Finish(StartedTask started);
  bool Conclude(StartedTask& started);
  std::int64_t SleepUntilDue(const StartedTask& started);

  Device& device_;
  std::function<void()> wake_;
  HeldBytes held_;
  mutable std::mutex mutex_;                          // guards all members below except the threads
  std::condition_variable work_, result_, stopping_;  // for the starter, the finisher, and sleepers
  ThrottleSchedule throttled_;
  DevicePipeline pipeline_;
  OutcomeQueue outcomes_;
  TaskTimes times_;
  bool stop_ = false;
  std::thread starter_;
  std::thread finisher_;
};

}  // namespace acan
