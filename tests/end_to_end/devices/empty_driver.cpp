// A driver for the OpenCL loader that has no device, as on a machine whose card was removed.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_icd.h>

#include <cstring>

struct _cl_platform_id {
  cl_icd_dispatch* dispatch;
};

namespace {

cl_int CL_API_CALL PlatformInfo(cl_platform_id, cl_platform_info what, size_t size, void* value,
                                size_t* needed) {
  const char* text = "";
  if (what == CL_PLATFORM_NAME) text = "Empty driver";
  if (what == CL_PLATFORM_EXTENSIONS) text = "cl_khr_icd";
  if (what == CL_PLATFORM_VERSION) text = "OpenCL 1.2 empty";
  if (what == CL_PLATFORM_ICD_SUFFIX_KHR) text = "EMPTY";
  const size_t length = std::strlen(text) + 1;
  if (needed != nullptr) *needed = length;
  if (value != nullptr && size >= length) std::memcpy(value, text, length);
  return CL_SUCCESS;
}

cl_int CL_API_CALL DeviceIds(cl_platform_id, cl_device_type, cl_uint, cl_device_id*,
                             cl_uint* count) {
  if (count != nullptr) *count = 0;
  return CL_DEVICE_NOT_FOUND;
}

_cl_platform_id& Platform() {
  static cl_icd_dispatch dispatch{};
  static _cl_platform_id platform{&dispatch};
  dispatch.clGetPlatformInfo = PlatformInfo;
  dispatch.clGetDeviceIDs = DeviceIds;
  return platform;
}

cl_int CL_API_CALL PlatformIds(cl_uint most, cl_platform_id* platforms, cl_uint* count) {
  if (count != nullptr) *count = 1;
  if (platforms != nullptr && most > 0) platforms[0] = &Platform();
  return CL_SUCCESS;
}

}  // namespace

extern "C" void* clGetExtensionFunctionAddress(const char* name) {
  if (std::strcmp(name, "clIcdGetPlatformIDsKHR") == 0) {
    return reinterpret_cast<void*>(&PlatformIds);
  }
  if (std::strcmp(name, "clGetPlatformInfo") == 0) return reinterpret_cast<void*>(&PlatformInfo);
  return nullptr;
}
extern "C" cl_int clIcdGetPlatformIDsKHR(cl_uint most, cl_platform_id* platforms, cl_uint* count) {
  return PlatformIds(most, platforms, count);
}
