#include "driver/cl.h"

#include <fmt/format.h>

#include <stdexcept>

#include "acan/core/device.h"

namespace acan::opencl {

std::string ErrorName(cl_int error) {
  switch (error) {
#define ACAN_NAME(name) \
  case name:            \
    return #name;
    ACAN_NAME(CL_SUCCESS)
    ACAN_NAME(CL_DEVICE_NOT_FOUND)
    ACAN_NAME(CL_DEVICE_NOT_AVAILABLE)
    ACAN_NAME(CL_COMPILER_NOT_AVAILABLE)
    ACAN_NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    ACAN_NAME(CL_OUT_OF_RESOURCES)
    ACAN_NAME(CL_OUT_OF_HOST_MEMORY)
    ACAN_NAME(CL_MEM_COPY_OVERLAP)
    ACAN_NAME(CL_BUILD_PROGRAM_FAILURE)
    ACAN_NAME(CL_MAP_FAILURE)
    ACAN_NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET)
    ACAN_NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    ACAN_NAME(CL_COMPILE_PROGRAM_FAILURE)
    ACAN_NAME(CL_LINKER_NOT_AVAILABLE)
    ACAN_NAME(CL_LINK_PROGRAM_FAILURE)
    ACAN_NAME(CL_DEVICE_PARTITION_FAILED)
    ACAN_NAME(CL_INVALID_VALUE)
    ACAN_NAME(CL_INVALID_DEVICE)
    ACAN_NAME(CL_INVALID_CONTEXT)
    ACAN_NAME(CL_INVALID_COMMAND_QUEUE)
    ACAN_NAME(CL_INVALID_MEM_OBJECT)
    ACAN_NAME(CL_INVALID_BINARY)
    ACAN_NAME(CL_INVALID_BUILD_OPTIONS)
    ACAN_NAME(CL_INVALID_PROGRAM)
    ACAN_NAME(CL_INVALID_PROGRAM_EXECUTABLE)
    ACAN_NAME(CL_INVALID_KERNEL_NAME)
    ACAN_NAME(CL_INVALID_KERNEL)
    ACAN_NAME(CL_INVALID_ARG_INDEX)
    ACAN_NAME(CL_INVALID_ARG_VALUE)
    ACAN_NAME(CL_INVALID_ARG_SIZE)
    ACAN_NAME(CL_INVALID_KERNEL_ARGS)
    ACAN_NAME(CL_INVALID_WORK_DIMENSION)
    ACAN_NAME(CL_INVALID_WORK_GROUP_SIZE)
    ACAN_NAME(CL_INVALID_WORK_ITEM_SIZE)
    ACAN_NAME(CL_INVALID_EVENT)
    ACAN_NAME(CL_INVALID_GLOBAL_OFFSET)
    ACAN_NAME(CL_INVALID_BUFFER_SIZE)
    ACAN_NAME(CL_INVALID_GLOBAL_WORK_SIZE)
    ACAN_NAME(CL_INVALID_DEVICE_PARTITION_COUNT)
#undef ACAN_NAME
    case -1001:
      return "CL_PLATFORM_NOT_FOUND_KHR";
    default:
      return fmt::format("OpenCL error {}", error);
  }
}

void Check(cl_int error, std::string_view call, std::string_view device) {
  if (error == CL_SUCCESS) return;
  const std::string text = fmt::format("{} on {}: {}", call, device, ErrorName(error));
  if (MeansNoMemory(error)) throw OutOfMemory(text);
  switch (error) {
    case CL_INVALID_WORK_GROUP_SIZE:  // the group's registers are more than there are
      throw OutOfMemory(text);
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_INVALID_COMMAND_QUEUE:
    case CL_INVALID_CONTEXT:
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST:
      throw DeviceLost(text);
    default:
      throw std::runtime_error(text);
  }
}

bool MeansNoMemory(cl_int error) {
  return error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_RESOURCES ||
         error == CL_OUT_OF_HOST_MEMORY;
}

void CheckStatus(cl_int status, std::string_view what, std::string_view device) {
  if (status >= CL_COMPLETE) return;
  const std::string text =
      fmt::format("{} failed while {} ran it, with status {} ({})", what, device, status,
                  status == -1 ? "the driver does not say why" : ErrorName(status));
  if (MeansNoMemory(status)) throw OutOfMemory(text);
  throw DeviceLost(text);
}

}  // namespace acan::opencl
