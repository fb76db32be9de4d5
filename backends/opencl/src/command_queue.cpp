#include "command_queue.h"

#include <fmt/format.h>

#include <utility>

#include "acan/core/device.h"

namespace acan::opencl {
namespace {

// Waits until the command has ended, and returns its status: CL_COMPLETE, or a negative one.
cl_int StatusOf(cl_event command) {
  if (command == nullptr) return CL_COMPLETE;
  const auto ask = [command] {
    cl_int status = CL_COMPLETE;
    const cl_int error = clGetEventInfo(command, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                                        &status, nullptr);
    return error == CL_SUCCESS ? status : error;
  };
  const cl_int status = ask();
  if (status <= CL_COMPLETE) return status;
  const cl_int error = clWaitForEvents(1, &command);
  const cl_int ended = ask();
  if (ended <= CL_COMPLETE) return ended;
  return error == CL_SUCCESS ? CL_INVALID_EVENT : error;
}

}  // namespace

void CheckStatus(cl_int status, std::string_view what, std::string_view device) {
  if (status >= CL_COMPLETE) return;
  const std::string text =
      fmt::format("{} failed while {} ran it, with status {} ({})", what, device, status,
                  status == -1 ? "the driver does not say why" : ErrorName(status));
  switch (status) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
      throw OutOfMemory(text);
    default:
      throw DeviceLost(text);
  }
}

void CheckEnded(const Event& command, std::string_view what, std::string_view device) {
  CheckStatus(StatusOf(command.get()), what, device);
}

CommandQueue::CommandQueue(cl_context context, cl_device_id id, std::string device,
                           std::optional<std::int64_t> fail_launch)
    : device_(std::move(device)), fail_launch_(fail_launch) {
  cl_int error = CL_SUCCESS;
  queue_ = Queue(clCreateCommandQueue(context, id, 0, &error));
  Check(error, "clCreateCommandQueue", device_);
  commands_.reserve(kMostCommands);
}

CommandQueue::~CommandQueue() {
  Release(commands_.size());
}

void CommandQueue::Launch(cl_kernel kernel, std::string_view what, const std::size_t (&global)[2],
                          const std::size_t (&local)[2]) {
  Add(what, [&](cl_command_queue queue, cl_event* event) {
    if (fail_launch_ && --*fail_launch_ == 0) return EnqueueFailing(kernel, global, local, event);
    return clEnqueueNDRangeKernel(queue, kernel, 2, nullptr, global, local, 0, nullptr, event);
  });
}

void CommandQueue::Finish() {
  Check(clFinish(queue_.get()), "clFinish", device_);
  Conclude(commands_.size());
}

void CommandQueue::CheckEnqueued(cl_int error, std::string_view what) const {
  if (error != CL_SUCCESS) Check(error, fmt::format("enqueueing {}", what), device_);
}

// Waits until the oldest `count` commands have ended, and releases their events. If one of them
// failed, all others are waited for, too, so that none of them is reported later, when it would
// concern somebody else.
void CommandQueue::Conclude(std::size_t count) {
  Command failed{};
  cl_int status = CL_COMPLETE;
  // The newest first: as the queue is in order, the others have then ended, too.
  for (std::size_t i = count; i-- > 0;) {
    const cl_int each = StatusOf(commands_[i].event);
    if (each >= CL_COMPLETE) continue;
    status = each;
    failed = commands_[i];
  }
  if (status < CL_COMPLETE) {
    clFinish(queue_.get());
    count = commands_.size();
  }
  Release(count);
  CheckStatus(status, failed.what, device_);
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
