// RAII owners for OpenCL's objects, and names for its errors.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <string>
#include <string_view>

#include "acan/module/handle.h"

namespace acan::opencl {

// "CL_OUT_OF_RESOURCES"; the number if it has no name.
std::string ErrorName(cl_int error);

// If `error` is an error, throws the exception that it stands for (see opencl_devices.h), with the
// text "clFinish on DEVICE: CL_...".
void Check(cl_int error, std::string_view call, std::string_view device);

// Whether the error, or the status of a command, says that memory or other resources are missing.
// Drivers also give these for a device that hangs; see device_health.h.
bool MeansNoMemory(cl_int error);

// Throws for a command that a driver ended with `status`, a negative one: OutOfMemory if it had no
// memory or other resources, otherwise DeviceLost, as its results are missing. `what`: its name.
void CheckStatus(cl_int status, std::string_view what, std::string_view device);

using Context = Handle<cl_context, clReleaseContext>;
using Queue = Handle<cl_command_queue, clReleaseCommandQueue>;
using Program = Handle<cl_program, clReleaseProgram>;
using ClKernel = Handle<cl_kernel, clReleaseKernel>;
using Memory = Handle<cl_mem, clReleaseMemObject>;
using Event = Handle<cl_event, clReleaseEvent>;

}  // namespace acan::opencl
