#include <algorithm>
#include <array>

#include "acan/cpu/cpu_device.h"

namespace acan {
namespace {

struct Name {
  CpuIsa isa;
  std::string_view name;
};
constexpr std::array<Name, 3> kNames{
    {{CpuIsa::kAvx512, "avx512"}, {CpuIsa::kAvx2, "avx2"}, {CpuIsa::kPortable, "portable"}}};

}  // namespace

std::string_view CpuIsaName(CpuIsa isa) {
  for (const Name& entry : kNames) {
    if (entry.isa == isa) return entry.name;
  }
  return "unknown";
}

std::optional<CpuIsa> ParseCpuIsa(std::string_view name) {
  for (const Name& entry : kNames) {
    if (entry.name == name) return entry.isa;
  }
  return std::nullopt;
}

bool CpuIsaAvailable(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPortable:
      return true;
#if defined(ACAN_CPU_X86)
    case CpuIsa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case CpuIsa::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    default:
      return false;
  }
}

CpuIsa DetectCpuIsa() {
  return std::find_if(kNames.begin(), kNames.end(),
                      [](const Name& entry) { return CpuIsaAvailable(entry.isa); })
      ->isa;
}

}  // namespace acan
