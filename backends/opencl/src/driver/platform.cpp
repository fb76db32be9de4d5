#include "driver/platform.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#include "acan/core/ieee_mode.h"

namespace acan::opencl {
namespace {

template <typename T>
T Ask(cl_device_id device, cl_device_info what, T otherwise = {}) {
  T value = otherwise;
  return clGetDeviceInfo(device, what, sizeof(value), &value, nullptr) == CL_SUCCESS ? value
                                                                                     : otherwise;
}

std::string Trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

std::string AskText(cl_device_id device, cl_device_info what) {
  std::size_t size = 0;
  if (clGetDeviceInfo(device, what, 0, nullptr, &size) != CL_SUCCESS) return "";
  std::string text(size, '\0');
  clGetDeviceInfo(device, what, size, text.data(), nullptr);
  return Trimmed(std::move(text));
}

std::string PlatformText(cl_platform_id platform, cl_platform_info what) {
  std::size_t size = 0;
  if (clGetPlatformInfo(platform, what, 0, nullptr, &size) != CL_SUCCESS) return "";
  std::string text(size, '\0');
  clGetPlatformInfo(platform, what, size, text.data(), nullptr);
  return Trimmed(std::move(text));
}

bool AtLeast12(const std::string& version) {  // "OpenCL 3.0 PoCL ..."
  int major = 0;
  int minor = 0;
  return std::sscanf(version.c_str(), "OpenCL %d.%d", &major, &minor) == 2 &&
         (major > 1 || minor >= 2);
}

// Why the device cannot compute what acan needs; empty if it can. Fast precision needs the same,
// because its updates and activations are the exact ones.
std::string Unfit(cl_device_id device) {
  if (!Ask<cl_bool>(device, CL_DEVICE_AVAILABLE)) return "the driver says it is not available";
  if (!Ask<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE)) return "its driver has no compiler";
  const std::string version = AskText(device, CL_DEVICE_VERSION);
  if (!AtLeast12(version)) return "it has \"" + version + "\"; 1.2 is needed";
  if (AskText(device, CL_DEVICE_PROFILE) != "FULL_PROFILE") {
    return "it has the embedded profile, which need not have 64-bit integers or denormals";
  }
  if (!Ask<cl_bool>(device, CL_DEVICE_ENDIAN_LITTLE)) return "it is big-endian";
  const auto config = Ask<cl_device_fp_config>(device, CL_DEVICE_SINGLE_FP_CONFIG);
  if (!(config & CL_FP_FMA)) return "it has no fused multiply-add for fp32";
  if (!(config & CL_FP_DENORM)) return "it has no denormals in fp32";
  if (!(config & CL_FP_INF_NAN)) return "it has no infinities and NaN in fp32";
  if (!(config & CL_FP_ROUND_TO_NEAREST)) return "it does not round fp32 to nearest";
  return "";
}

// The number of parts, of one compute unit each, into which the device can be cut.
int PartsOf(cl_device_id device, bool cpu) {
  if (!cpu) return 0;
  std::size_t size = 0;
  clGetDeviceInfo(device, CL_DEVICE_PARTITION_PROPERTIES, 0, nullptr, &size);
  std::vector<cl_device_partition_property> kinds(size / sizeof(cl_device_partition_property));
  if (kinds.empty()) return 0;
  clGetDeviceInfo(device, CL_DEVICE_PARTITION_PROPERTIES, size, kinds.data(), nullptr);
  if (std::find(kinds.begin(), kinds.end(), CL_DEVICE_PARTITION_EQUALLY) == kinds.end()) return 0;
  const auto most = static_cast<int>(Ask<cl_uint>(device, CL_DEVICE_PARTITION_MAX_SUB_DEVICES));
  return most > 1 ? most : 0;
}

DeviceKind KindOf(cl_device_type type) {
  if (type & CL_DEVICE_TYPE_CPU) return DeviceKind::kHostCpu;
  return type & CL_DEVICE_TYPE_GPU ? DeviceKind::kGpu : DeviceKind::kOther;
}

// Whether the platform is one of the open implementations, which drive hardware of many vendors.
bool IsPortable(const std::string& platform) {
  return platform == "Portable Computing Language" || platform == "rusticl" || platform == "Clover";
}

Candidate Describe(cl_platform_id platform, cl_device_id device, int index) {
  Candidate out;
  out.id = device;
  out.cpu = Ask<cl_device_type>(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU;
  out.correct_divide = Ask<cl_device_fp_config>(device, CL_DEVICE_SINGLE_FP_CONFIG) &
                       CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
  out.native_floats =
      static_cast<int>(Ask<cl_uint>(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, 1));
  out.most_allocation_bytes = Ask<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  out.most_group_size = Ask<std::size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, 1);
  out.local_bytes = Ask<cl_ulong>(device, CL_DEVICE_LOCAL_MEM_SIZE);
  DeviceListing& listing = out.listing;
  DeviceInfo& info = listing.info;
  info.name = fmt::format("opencl:{}", index);
  info.backend = "opencl";
  info.threads = static_cast<int>(Ask<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS, 1));
  info.memory_bytes = Ask<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE);
  const std::string name = AskText(device, CL_DEVICE_NAME);
  info.description =
      fmt::format("{}, {} compute unit{}", name, info.threads, info.threads == 1 ? "" : "s");
  listing.kind = KindOf(Ask<cl_device_type>(device, CL_DEVICE_TYPE));
  listing.driver = fmt::format("{} {}", PlatformText(platform, CL_PLATFORM_NAME),
                               AskText(device, CL_DRIVER_VERSION));
  listing.vendor_id = Ask<cl_uint>(device, CL_DEVICE_VENDOR_ID);
  listing.host_memory = out.cpu || Ask<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY);
  listing.unusable = Unfit(device);
  info.exact = info.fast = listing.unusable.empty();
  listing.parts = PartsOf(device, out.cpu);
  if (listing.parts > 0) listing.parted_by = "1 compute unit";
  out.hardware = HardwareOf(device, AskText(device, CL_DEVICE_EXTENSIONS));
  out.portable = IsPortable(PlatformText(platform, CL_PLATFORM_NAME));
  out.keeps_programs =
      PlatformText(platform, CL_PLATFORM_NAME) == "Portable Computing Language";  // PoCL
  out.identity = fmt::format("{}\n{}\n{}\n{}\n{}\n", PlatformText(platform, CL_PLATFORM_VERSION),
                             AskText(device, CL_DEVICE_VENDOR), name,
                             AskText(device, CL_DEVICE_VERSION), listing.driver);
  return out;
}

}  // namespace

std::vector<Candidate> FindDevices(std::string& problem) {
  const IeeeMode ieee;  // the drivers, which the first call loads, may leave another mode
  std::vector<Candidate> found;
  cl_uint count = 0;
  const cl_int error = clGetPlatformIDs(0, nullptr, &count);
  if (error != CL_SUCCESS || count == 0) {
    problem = fmt::format(
        "OpenCL's loader found no driver ({}); drivers are listed in /etc/OpenCL/vendors",
        ErrorName(error));
    return found;
  }
  std::vector<cl_platform_id> platforms(count);
  clGetPlatformIDs(count, platforms.data(), nullptr);
  std::string without;
  for (std::size_t p = 0; p < platforms.size(); ++p) {
    cl_platform_id platform = platforms[p];
    cl_uint devices = 0;
    const cl_int none = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &devices);
    if (none != CL_SUCCESS || devices == 0) {
      without += fmt::format("{}{} ({})", without.empty() ? "" : ", ",
                             PlatformText(platform, CL_PLATFORM_NAME), ErrorName(none));
      continue;
    }
    std::vector<cl_device_id> ids(devices);
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, devices, ids.data(), nullptr);
    for (cl_device_id id : ids) {
      found.push_back(Describe(platform, id, static_cast<int>(found.size())));
      found.back().platform = p;
    }
  }
  if (found.empty()) problem = fmt::format("drivers without a device: {}", without);
  MarkSameGpus(found);
  return found;
}

void MarkSameGpus(std::vector<Candidate>& found) {
  std::vector<std::size_t> gpus;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].listing.kind == DeviceKind::kGpu) gpus.push_back(i);
  }
  const auto rank = [&found](std::size_t i) {
    return std::pair(!found[i].listing.unusable.empty(), found[i].portable);
  };
  std::stable_sort(gpus.begin(), gpus.end(),
                   [&rank](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  std::vector<std::size_t> kept;
  for (const std::size_t i : gpus) {
    const auto find = [&](bool (*same)(const Hardware&, const Hardware&)) {
      return std::find_if(kept.begin(), kept.end(), [&](std::size_t k) {
        return found[k].platform != found[i].platform && same(found[k].hardware, found[i].hardware);
      });
    };
    auto other = find(SameUuid);
    if (other == kept.end()) other = find(SamePci);
    if (other == kept.end()) {
      kept.push_back(i);
    } else {
      found[i].listing.same_as = static_cast<int>(*other);
    }
  }
}

cl_device_id PartOf(const Candidate& candidate, int part) {
  static std::mutex mutex;
  static auto& cut = *new std::map<cl_device_id, std::vector<cl_device_id>>;
  const std::lock_guard lock(mutex);
  std::vector<cl_device_id>& parts = cut[candidate.id];
  if (parts.empty()) {
    const cl_device_partition_property by_one[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    std::vector<cl_device_id> ids(static_cast<std::size_t>(candidate.listing.parts));
    Check(clCreateSubDevices(candidate.id, by_one, static_cast<cl_uint>(ids.size()), ids.data(),
                             nullptr),
          "clCreateSubDevices", candidate.listing.info.name);
    parts = std::move(ids);
  }
  return parts[static_cast<std::size_t>(part)];
}

}  // namespace acan::opencl
