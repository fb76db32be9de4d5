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

using Context = Handle<cl_context, clReleaseContext>;
using Queue = Handle<cl_command_queue, clReleaseCommandQueue>;
using Program = Handle<cl_program, clReleaseProgram>;
using ClKernel = Handle<cl_kernel, clReleaseKernel>;
using Memory = Handle<cl_mem, clReleaseMemObject>;
using Event = Handle<cl_event, clReleaseEvent>;

}  // namespace acan::opencl
