#include "nvml.h"

#include <dlfcn.h>

#include "acan/core/ieee_mode.h"

namespace acan::cuda {
namespace {

struct Memory {
  unsigned long long total, free, used;
};

struct Nvml {
  int (*init)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*by_bus_id)(const char*, void**) = nullptr;
  int (*memory)(void*, Memory*) = nullptr;
  bool there = false;
};

template <typename T>
bool Find(void* library, const char* name, T& function) {
  function = reinterpret_cast<T>(::dlsym(library, name));
  return function != nullptr;
}

const Nvml& TheNvml() {
  static const Nvml kNvml = [] {
    Nvml out;
    const IeeeMode ieee;  // the library may leave another mode
    void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);  // never unloaded
    out.there = library != nullptr && Find(library, "nvmlInit_v2", out.init) &&
                Find(library, "nvmlSystemGetDriverVersion", out.driver_version) &&
                Find(library, "nvmlDeviceGetHandleByPciBusId_v2", out.by_bus_id) &&
                Find(library, "nvmlDeviceGetMemoryInfo", out.memory) && out.init() == 0;
    return out;
  }();
  return kNvml;
}

}  // namespace

std::string NvmlDriverVersion() {
  char text[96] = {};
  if (!TheNvml().there || TheNvml().driver_version(text, sizeof(text)) != 0) return "";
  return text;
}

std::optional<std::uint64_t> NvmlFreeBytes(const char* pci_bus_id) {
  void* device = nullptr;
  Memory memory{};
  if (!TheNvml().there || TheNvml().by_bus_id(pci_bus_id, &device) != 0 ||
      TheNvml().memory(device, &memory) != 0) {
    return std::nullopt;
  }
  return memory.free;
}

}  // namespace acan::cuda
