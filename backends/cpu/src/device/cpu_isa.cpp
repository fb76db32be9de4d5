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

#if defined(ACAN_CPU_AVX2)
constexpr bool kBuiltForAvx2 = true;
#else
constexpr bool kBuiltForAvx2 = false;
#endif
#if defined(ACAN_CPU_AVX512)
constexpr bool kBuiltForAvx512 = true;
#else
constexpr bool kBuiltForAvx512 = false;
#endif

constexpr bool IsBuiltFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPortable:
      return true;
    case CpuIsa::kAvx2:
      return kBuiltForAvx2;
    case CpuIsa::kAvx512:
      return kBuiltForAvx512;
  }
  return false;
}

// Whether both this machine's CPU and its kernel support it.
bool IsSupported(CpuIsa isa) {
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

// The best instruction set for which `holds`, which is always true for kPortable.
template <typename Condition>
CpuIsa Best(Condition holds) {
  return std::find_if(kNames.begin(), kNames.end(),
                      [&](const Name& entry) { return holds(entry.isa); })
      ->isa;
}

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
  return IsBuiltFor(isa) && IsSupported(isa);
}

CpuIsa DetectCpuIsa() {
  return Best(CpuIsaAvailable);
}

std::optional<CpuIsa> CpuIsaNotBuilt() {
  const CpuIsa best = Best(IsSupported);
  if (IsBuiltFor(best)) return std::nullopt;
  return best;
}

}  // namespace acan
