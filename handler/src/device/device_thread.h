// DeviceThread: the thread of a handler's device. It runs tasks in order while the handler's own
// thread talks to the space. A device that works asynchronously is given the next task while the
// results of one are still to come; a second thread waits for those. Short tasks, which take less
// than waking another thread and being woken by it, are run on the handler's own.
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

// Microseconds of the monotonic clock.
std::int64_t NowUs();

// Public methods: the handler's thread. `wake` is called on the device's thread when there are
// outcomes: at once, or, while more short tasks wait to be run, a fraction of a millisecond later
// for several.
class DeviceThread {
 public:
  // `throttle` (may be null) must outlive it.
  DeviceThread(Device& device, std::function<void()> wake, const Throttle* throttle = nullptr);
  ~DeviceThread();  // waits for tasks that run; the others are dropped
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  // The device's thread begins what is not to be run by Go at once: whoever calls this may have
  // other things to do before Go.
  void Add(DeviceJob job);
  // To be called after Add, and until it is false: leaves what was added to the device's thread, or
  // runs it here for a fraction of a millisecond and says whether more of it is left.
  bool Go();
  std::deque<DeviceOutcome> TakeOutcomes();
  // Jobs that have not begun; they will not run.
  std::vector<FlightId> TakeBack();
  // Since when it has finished no task although it has begun some; nullopt: it computes nothing.
  std::optional<std::int64_t> BusySinceUs() const;
  // Most bytes held at once: the device's, and inputs that wait to be copied to it.
  std::uint64_t peak_bytes() const;

 private:
  void Enqueue(DeviceJob job);
  bool IsShort(const Task& task) const;
  bool RunsHere(const Task& task) const;
  void TellBefore(const Task& task);
  void StartLoop();
  void FinishLoop();
  StartedTask Start(DeviceJob job);
  void Finish(StartedTask started);
  bool Conclude(StartedTask& started);
  std::int64_t SleepUntilDue(const StartedTask& started);

  Device& device_;
  std::function<void()> wake_;
  HeldBytes held_;
  mutable std::mutex mutex_;                          // of all that follows but the threads
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
