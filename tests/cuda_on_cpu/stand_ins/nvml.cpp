// Stand-in for libnvidia-ml.so.1: reports a driver version, and 3 GiB of free memory for each
// device.
#include <cstring>

namespace {

struct Memory {
  unsigned long long total, free, used;
};
constexpr unsigned long long kFreeBytes = 3ull << 30;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return 0;
}

int nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  constexpr char kVersion[] = "0.0.fake";
  if (bytes < sizeof(kVersion)) return 1;
  std::memcpy(text, kVersion, sizeof(kVersion));
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  static int handle = 0;
  *device = &handle;
  return std::strncmp(id, "0000:", 5) == 0 ? 0 : 1;
}

int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {2 * kFreeBytes, kFreeBytes, kFreeBytes};
  return 0;
}

}  // extern "C"
