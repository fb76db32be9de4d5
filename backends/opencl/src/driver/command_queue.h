// The queue of a device's computations. It notices every command that fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "driver/cl.h"
#include "driver/device_health.h"

namespace acan::opencl {

// For a call that blocks until its command has ended: throws if the call returned an error, as
// DeviceHealth::Check, or if the command failed, as DeviceHealth::CheckStatus.
void CheckBlocking(cl_int error, const Event& command, std::string_view call,
                   const DeviceHealth& health);

// An in-order queue. A driver reports a command that ends abnormally only as the status of the
// command's event; clFinish and blocking reads return CL_SUCCESS (OpenCL 1.2, 5.9 and 5.13), or, of
// a device that hangs, an error that does not say so. So the queue keeps the event of each command
// until it has read the status. One thread at a time.
class CommandQueue {
 public:
  // `health` must outlive the queue. `fail_launch`, `fail_by_hanging`: for tests; see
  // DeviceOptions.
  CommandQueue(cl_context context, cl_device_id id, DeviceHealth& health,
               std::optional<std::int64_t> fail_launch, bool fail_by_hanging);
  ~CommandQueue();
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;

  cl_command_queue get() const { return queue_.get(); }

  // Enqueues a command by `enqueue(queue, &event)`, which returns OpenCL's error. `what` names the
  // command, and must live as long as the queue. Throws as DeviceHealth::Check, and, as it may wait
  // for earlier commands to bound the number of events, as Finish.
  template <typename Enqueue>
  void Add(std::string_view what, const Enqueue& enqueue) {
    MakeRoom();
    cl_event event = nullptr;
    CheckEnqueued(enqueue(get(), &event), what);
    commands_.push_back({event, what});
  }
  // As Add, for a kernel.
  void Launch(cl_kernel kernel, std::string_view what, const std::size_t (&global)[2],
              const std::size_t (&local)[2]);
  // As Add, for a command whose enqueueing call blocks until it has ended. Throws as Finish.
  template <typename Enqueue>
  void AddBlocking(std::string_view what, const Enqueue& enqueue) {
    MakeRoom();
    cl_event event = nullptr;
    const cl_int error = enqueue(get(), &event);
    if (error == CL_SUCCESS) commands_.push_back({event, what});
    EndBlocking(health_.OfWait(error), what);
  }

  // Waits until all commands have ended. Throws as DeviceHealth::CheckStatus if one of them failed;
  // the next call does not report it again.
  void Finish();

 private:
  // Enough commands that a device always has some to run while the oldest half is concluded.
  static constexpr std::size_t kMostCommands = 1024;

  struct Command {
    cl_event event;  // null if the call gave none
    std::string_view what;
  };

  void MakeRoom() {
    if (commands_.size() == kMostCommands) Conclude(kMostCommands / 2, CL_SUCCESS);
  }
  void CheckEnqueued(cl_int error, std::string_view what) const;
  void EndBlocking(cl_int error, std::string_view what);
  void Conclude(std::size_t count, cl_int wait);
  void Release(std::size_t count);
  // As if the device failed to run the kernel.
  cl_int EnqueueFailing(cl_kernel kernel, const std::size_t* global, const std::size_t* local,
                        cl_event* event);

  DeviceHealth& health_;
  std::optional<std::int64_t> fail_launch_;
  bool fail_by_hanging_;
  Queue queue_;
  std::vector<Command> commands_;  // oldest first
};

}  // namespace acan::opencl
