#include "driver/command_queue.h"

#include <fmt/format.h>

namespace acan::opencl {
namespace {

// The status of the command: CL_COMPLETE, or a negative one. Waits for it unless an earlier wait
// failed, since each wait for a device that hangs may take long. If its own wait fails, `wait` is
// the error; a status above CL_COMPLETE then means that nobody knows.
cl_int StatusOf(cl_event command, cl_int& wait) {
  if (command == nullptr) return CL_COMPLETE;
  const auto ask = [command] {
    cl_int status = CL_COMPLETE;
    const cl_int error = clGetEventInfo(command, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                                        &status, nullptr);
    return error == CL_SUCCESS ? status : error;
  };
  const cl_int status = ask();
  if (status <= CL_COMPLETE || wait != CL_SUCCESS) return status;
  const cl_int error = clWaitForEvents(1, &command);
  const cl_int ended = ask();
  if (ended > CL_COMPLETE) wait = error == CL_SUCCESS ? CL_INVALID_EVENT : error;
  return ended;
}

}  // namespace

void CheckBlocking(cl_int error, const Event& command, std::string_view call,
                   const DeviceHealth& health) {
  health.Check(health.OfWait(error), call);
  cl_int wait = CL_SUCCESS;
  const cl_int status = StatusOf(command.get(), wait);
  health.CheckStatus(status, call, wait);
}

CommandQueue::CommandQueue(cl_context context, cl_device_id id, DeviceHealth& health,
                           std::optional<std::int64_t> fail_launch, bool fail_by_hanging)
    : health_(health), fail_launch_(fail_launch), fail_by_hanging_(fail_by_hanging) {
  cl_int error = CL_SUCCESS;
  queue_ = Queue(clCreateCommandQueue(context, id, 0, &error));
  Check(error, "clCreateCommandQueue", health_.device());
  commands_.reserve(kMostCommands);
}

CommandQueue::~CommandQueue() {
  Release(commands_.size());
}

void CommandQueue::Launch(cl_kernel kernel, std::string_view what, const std::size_t (&global)[2],
                          const std::size_t (&local)[2]) {
  Add(what, [&](cl_command_queue queue, cl_event* event) {
    if (fail_launch_ && --*fail_launch_ == 0) {
      if (fail_by_hanging_) health_.Hang();
      return EnqueueFailing(kernel, global, local, event);
    }
    return clEnqueueNDRangeKernel(queue, kernel, 2, nullptr, global, local, 0, nullptr, event);
  });
}

void CommandQueue::Finish() {
  const cl_int wait = health_.OfWait(clFinish(queue_.get()));
  Conclude(commands_.size(), wait);
}

void CommandQueue::CheckEnqueued(cl_int error, std::string_view what) const {
  if (error != CL_SUCCESS) health_.Check(error, fmt::format("enqueueing {}", what));
}

void CommandQueue::EndBlocking(cl_int error, std::string_view what) {
  if (error == CL_SUCCESS) return Conclude(commands_.size(), CL_SUCCESS);
  // The call may have failed because an earlier command did, and then only its event says why.
  Finish();
  CheckEnqueued(error, what);
}

// Waits until the oldest `count` commands have ended, and releases their events. `wait` is the
// error of a call that has waited for them already. If one of them failed, or the wait, all others
// are waited for, too, so that none of them is reported later, when it would concern somebody else.
void CommandQueue::Conclude(std::size_t count, cl_int wait) {
  Command failed{};
  cl_int status = CL_COMPLETE;
  // The newest first: as the queue is in order, the others have then ended, too.
  for (std::size_t i = count; i-- > 0;) {
    const cl_int each = StatusOf(commands_[i].event, wait);
    if (each >= CL_COMPLETE) continue;
    status = each;
    failed = commands_[i];
  }
  if (status < CL_COMPLETE && wait == CL_SUCCESS) {
    wait = health_.OfWait(clFinish(queue_.get()));
    count = commands_.size();
  }
  Release(wait == CL_SUCCESS ? count : commands_.size());
  health_.CheckStatus(status, failed.what, wait);
}

void CommandQueue::Release(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (commands_[i].event != nullptr) clReleaseEvent(commands_[i].event);
  }
  commands_.erase(commands_.begin(), commands_.begin() + static_cast<std::ptrdiff_t>(count));
}

cl_int CommandQueue::EnqueueFailing(cl_kernel kernel, const std::size_t* global,
                                    const std::size_t* local, cl_event* event) {
  cl_context context = nullptr;
  cl_int error = clGetCommandQueueInfo(queue_.get(), CL_QUEUE_CONTEXT, sizeof(cl_context),
                                       static_cast<void*>(&context), nullptr);
  if (error != CL_SUCCESS) return error;
  // A kernel that waits for a failed event fails, too.
  const Event fault(clCreateUserEvent(context, &error));
  if (error != CL_SUCCESS) return error;
  const cl_event awaited = fault.get();
  error =
      clEnqueueNDRangeKernel(queue_.get(), kernel, 2, nullptr, global, local, 1, &awaited, event);
  clSetUserEventStatus(awaited, CL_DEVICE_NOT_AVAILABLE);
  return error;
}

}  // namespace acan::opencl
