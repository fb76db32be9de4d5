// DeviceThread: the thread of a handler's device. It runs tasks in order while the handler's own
// thread talks to the space. A device that works asynchronously is given the next task while the
// results of one are still to come; a second thread waits for those. Short tasks, which take less
// than waking another thread and being woken by it, are run on the handler's own.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "acan/core/task.h"
#include "acan/handler/handler_core.h"
#include "acan/handler/throttle.h"
#include "executor.h"

namespace acan {

// Microseconds of the monotonic clock.
std::int64_t NowUs();

// A task on its way to the device.
struct DeviceJob {
  FlightId flight = 0;
  std::shared_ptr<const Task> task;
  std::vector<TaskInput> inputs;
  std::optional<std::size_t> keep_input;
  std::uint64_t waiting_bytes = 0;  // payloads that are not in the device's budget
  std::int64_t added_us = 0;        // set by Add
  bool resident = false;            // results that may stay on the device do
};

// What came of it.
struct DeviceOutcome {
  FlightId flight = 0;
  bool failed = false;
  bool lost = false;  // failed, and so will everything on this device
  std::string cause;
  std::vector<TaskResult> results;
  BufferPtr kept_input;
  double seconds = 0;
};

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
  // A task whose operations were called.
  struct Started {
    DeviceOutcome outcome;
    std::vector<StartedResult> results;
    std::int64_t begin_us = 0;
    std::int64_t added_us = 0;
    TaskKind kind = TaskKind::kForward;
    std::uint64_t flops = 0;
    bool at_once = false;
  };
  static constexpr std::int64_t kNothingUntold = -1;

  // Of the last task of a kind.
  struct Took {
    std::int64_t us = 0;
    std::uint64_t flops = 1;
    bool at_once = false;  // its results were there when its operations were called
  };

  void Enqueue(DeviceJob job);
  bool IsBusy() const { return starting_ || finishing_ || !started_.empty(); }
  void NoteStart();
  bool IsShort(const DeviceJob& job) const;
  bool RunsHere(const DeviceJob& job) const;
  void TellBefore(const DeviceJob& job);
  void StartLoop();
  void FinishLoop();
  Started Start(DeviceJob job);
  void Finish(Started started);
  bool Conclude(Started& started);
  void SleepUntilDue(const Started& started);
  void NotePeak();

  Device& device_;
  std::function<void()> wake_;
  const Throttle* const throttle_;
  mutable std::mutex mutex_;
  std::condition_variable work_, result_, stopping_;  // for the starter, the finisher, and sleepers
  std::deque<DeviceJob> jobs_;
  bool starting_ = false;  // a thread, or Go, runs a task
  std::deque<Started>
      started_;  // whose results are to come; with `finishing_` at most kMostStarted
  bool finishing_ = false;
  std::deque<DeviceOutcome> outcomes_;
  std::int64_t untold_since_us_ = kNothingUntold;  // the oldest outcome that nobody was told of
  std::array<std::optional<Took>, kTaskKinds> took_;
  std::int64_t last_end_us_ = 0;
  std::int64_t busy_since_us_ =
      0;                     // while it is busy: the last time that it began to be, or a task ended
  std::int64_t due_us_ = 0;  // when the task before was to end, by the throttle
  bool stop_ = false;
  std::atomic<std::uint64_t> waiting_bytes_{0};
  std::atomic<std::uint64_t> peak_bytes_{0};
  std::thread starter_;
  std::thread finisher_;
};

}  // namespace acan
