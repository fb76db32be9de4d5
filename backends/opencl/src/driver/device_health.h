// Whether an open device still computes. Drivers report a device that hangs or is lost with the
// errors of one that has no memory: Intel's and NVIDIA's give CL_OUT_OF_RESOURCES for both.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "driver/cl.h"

namespace acan::opencl {

// Any thread may call its functions.
class DeviceHealth {
 public:
  // `queue` belongs to `context` and must outlive this object. Throws as opencl::Check, and
  // DeviceLost for a device that runs no command.
  DeviceHealth(cl_context context, cl_command_queue queue, std::string device);

  const std::string& device() const { return device_; }

  // As opencl::Check, but throws DeviceLost for a lack of memory if the device no longer runs a
  // command that needs none.
  void Check(cl_int error, std::string_view call) const;
  // As opencl::CheckStatus, in the same way. `wait` is the error of the call that waited for the
  // command: if it failed, the results are unknown, which is DeviceLost, too.
  void CheckStatus(cl_int status, std::string_view what, cl_int wait) const;

  // For tests: from now on the driver reports as for a device that hangs.
  void Hang() { hangs_ = true; }
  // The error of a call that waited for commands.
  cl_int OfWait(cl_int error) const { return hangs_ ? CL_OUT_OF_RESOURCES : error; }

 private:
  bool Answers() const;

  std::string device_;
  cl_command_queue queue_;
  Memory probe_;  // has its place in the device's memory since the first command on it
  std::atomic<bool> hangs_ = false;
};

}  // namespace acan::opencl
