// DeviceThread: the thread of a handler's device. It runs tasks in order while the handler's own
// thread talks to the space.
#pragma once

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

// Public methods: any thread. `wake` is called on the device's thread after each outcome.
class DeviceThread {
 public:
  DeviceThread(Device& device, std::function<void()> wake);
  ~DeviceThread();  // waits for the task that runs; the others are dropped
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  void Add(DeviceJob job);
  std::deque<DeviceOutcome> TakeOutcomes();
  // Jobs that have not begun; they will not run.
  std::vector<FlightId> TakeBack();
  // Most bytes held at once: the device's, and inputs that wait to be copied to it.
  std::uint64_t peak_bytes() const;

 private:
  void Loop();
  DeviceOutcome Run(DeviceJob job);
  void NotePeak();

  Device& device_;
  std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<DeviceJob> jobs_;
  std::deque<DeviceOutcome> outcomes_;
  bool stop_ = false;
  std::atomic<std::uint64_t> waiting_bytes_{0};
  std::atomic<std::uint64_t> peak_bytes_{0};
  std::thread thread_;
};

}  // namespace acan
