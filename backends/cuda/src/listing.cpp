#include "listing.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "acan/core/ieee_mode.h"
#include "check.h"
#include "cublas.h"
#include "nvml.h"

namespace acan::cuda {
namespace {

constexpr int kOldest = 75;  // older devices round and fuse in the same way, but are untested
constexpr std::uint32_t kNvidia = 0x10de;

std::string VersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

int Attribute(int device, cudaDeviceAttr what) {
  int value = 0;
  Check(cudaDeviceGetAttribute(&value, what, device), "cudaDeviceGetAttribute",
        fmt::format("cuda:{}", device));
  return value;
}

std::string DriverText(int cuda_version) {
  const std::string driver = NvmlDriverVersion();
  std::string text = fmt::format("NVIDIA {}(CUDA {})", driver.empty() ? "" : driver + " ",
                                 VersionText(cuda_version));
  const std::string problem = CublasProblem();
  return text + (problem.empty()
                     ? ", cuBLAS " + CublasVersion()
                     : ", no cuBLAS: fast products are the exact ones (" + problem + ")");
}

DeviceListing Describe(int device, const std::string& driver) {
  DeviceListing listing;
  DeviceInfo& info = listing.info;
  info.name = fmt::format("cuda:{}", device);
  info.backend = "cuda";
  info.own_memory = true;
  cudaDeviceProp properties{};
  Check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties", info.name);
  info.threads = properties.multiProcessorCount;
  info.memory_bytes = properties.totalGlobalMem;
  const int mode = Attribute(device, cudaDevAttrComputeMode);
  info.description =
      fmt::format("{}, {} multiprocessors, compute capability {}.{}{}", properties.name,
                  info.threads, properties.major, properties.minor,
                  mode == cudaComputeModeExclusiveProcess ? ", for one process at a time" : "");
  listing.kind = DeviceKind::kGpu;
  listing.vendor_id = kNvidia;
  listing.driver = driver;
  char bus[32] = {};
  if (cudaDeviceGetPCIBusId(bus, sizeof(bus), device) == cudaSuccess) {
    listing.free_bytes = NvmlFreeBytes(bus);
  }
  if (listing.free_bytes) {
    listing.free_bytes = std::min(*listing.free_bytes, info.memory_bytes);
  }
  listing.unusable = Unfit({properties.major, properties.minor, mode == cudaComputeModeProhibited},
                           ACAN_CUDA_ARCHITECTURES);
  info.exact = info.fast = listing.unusable.empty();
  return listing;
}

// "90" means code and PTX, "75-real" code only, "90-virtual" PTX only. "90a" runs on 9.0 only,
// "100f" on 10.0 and later devices of its family, which are those of the same major version.
bool Runs(std::string_view architecture, int major, int minor) {
  int number = 0;
  const char* const end = architecture.data() + architecture.size();
  const auto parsed = std::from_chars(architecture.data(), end, number);
  const std::string_view rest(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  const int device = major * 10 + minor;
  if (rest.starts_with('a')) return number == device;
  if (rest.starts_with('f')) return number / 10 == major && number <= device;
  const bool code = !rest.starts_with("-virtual") && number / 10 == major && number <= device;
  const bool ptx = !rest.starts_with("-real") && number <= device;
  return code || ptx;
}

}  // namespace

std::string Unfit(const DeviceFacts& facts, std::string_view architectures) {
  if (facts.prohibited) {
    return "its compute mode is prohibited (nvidia-smi --compute-mode=DEFAULT allows computing)";
  }
  if (facts.major * 10 + facts.minor < kOldest) {
    return fmt::format("its compute capability is {}.{}; {}.{} or newer is needed", facts.major,
                       facts.minor, kOldest / 10, kOldest % 10);
  }
  for (std::size_t begin = 0; begin <= architectures.size();) {
    const std::size_t end = std::min(architectures.find(',', begin), architectures.size());
    if (Runs(architectures.substr(begin, end - begin), facts.major, facts.minor)) return "";
    begin = end + 1;
  }
  return fmt::format(
      "its compute capability is {}.{}, but this acan was compiled for {} only (CMake's "
      "ACAN_CUDA_ARCHITECTURES)",
      facts.major, facts.minor, architectures);
}

std::string NoDriverText(int driver, int runtime, std::string_view error) {
  if (driver == 0) {
    return fmt::format("there is no NVIDIA driver here ({})", error);
  }
  if (driver / 1000 < runtime / 1000) {
    return fmt::format(
        "the NVIDIA driver is too old: it supports CUDA {}, but this acan was built with CUDA {}",
        VersionText(driver), VersionText(runtime));
  }
  return fmt::format("the NVIDIA driver (CUDA {}) offers no device: {}", VersionText(driver),
                     error);
}

DeviceList FindDevices() {
  const IeeeMode ieee;  // the driver, which the first call loads, may leave another mode
  DeviceList list;
  int driver = 0;
  cudaDriverGetVersion(&driver);
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    std::string words = error == cudaSuccess ? "it reports 0 devices"
                                             : ErrorText(error, "cudaGetDeviceCount", "it");
    // CUDA reports a missing driver as an old one.
    if (driver == 0 && ::dlopen("libcuda.so.1", RTLD_NOW) == nullptr) words = ::dlerror();
    list.problem = NoDriverText(driver, CUDART_VERSION, words);
    return list;
  }
  const std::string text = DriverText(driver);
  for (int i = 0; i < count; ++i) {
    try {
      list.devices.push_back(Describe(i, text));
    } catch (const std::exception& failed) {
      DeviceListing listing;
      listing.info.name = fmt::format("cuda:{}", i);
      listing.info.backend = "cuda";
      listing.info.exact = listing.info.fast = false;
      listing.kind = DeviceKind::kGpu;
      listing.vendor_id = kNvidia;
      listing.driver = text;
      listing.unusable = failed.what();
      list.devices.push_back(std::move(listing));
    }
  }
  return list;
}

}  // namespace acan::cuda
