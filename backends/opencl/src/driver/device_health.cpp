#include "driver/device_health.h"

#include <fmt/format.h>

#include <utility>

#include "acan/core/device.h"

namespace acan::opencl {

DeviceHealth::DeviceHealth(cl_context context, cl_command_queue queue, std::string device)
    : device_(std::move(device)), queue_(queue) {
  cl_int error = CL_SUCCESS;
  probe_ = Memory(clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof(cl_uint), nullptr, &error));
  opencl::Check(error, "clCreateBuffer", device_);
  if (!Answers()) throw DeviceLost(fmt::format("{} does not run a command", device_));
}

void DeviceHealth::Check(cl_int error, std::string_view call) const {
  if (MeansNoMemory(error) && !Answers()) {
    throw DeviceLost(fmt::format("{} on {}: {}, and it no longer runs a command", call, device_,
                                 ErrorName(error)));
  }
  opencl::Check(error, call, device_);
}

void DeviceHealth::CheckStatus(cl_int status, std::string_view what, cl_int wait) const {
  const bool no_memory = MeansNoMemory(status);
  if (status >= CL_COMPLETE || no_memory) {
    if (wait != CL_SUCCESS) {
      throw DeviceLost(
          fmt::format("waiting for the commands of {} failed: {}", device_, ErrorName(wait)));
    }
    if (no_memory && !Answers()) {
      throw DeviceLost(
          fmt::format("{} failed with {} while {} ran it, which no longer runs a "
                      "command",
                      what, ErrorName(status), device_));
    }
  }
  opencl::CheckStatus(status, what, device_);
}

bool DeviceHealth::Answers() const {
  const cl_uint zero = 0;
  cl_event event = nullptr;
  if (clEnqueueFillBuffer(queue_, probe_.get(), &zero, sizeof(zero), 0, sizeof(zero), 0, nullptr,
                          &event) != CL_SUCCESS) {
    return false;
  }
  const Event filled(event);
  if (OfWait(clWaitForEvents(1, &event)) != CL_SUCCESS) return false;
  cl_int status = CL_COMPLETE;
  return clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status,
                        nullptr) == CL_SUCCESS &&
         status == CL_COMPLETE;
}

}  // namespace acan::opencl
