#include "acan/core/ieee_mode.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace acan {

// None of these functions is inline, so no compiler moves arithmetic on values in memory across it.
#if defined(__SSE2__)

namespace {

// The register's value when a process starts: no traps, round to nearest, with denormals.
constexpr std::uint32_t kIeeeRegister = 0x1f80;

}  // namespace

IeeeMode::IeeeMode() : saved_(_mm_getcsr()) {
  _mm_setcsr(kIeeeRegister);
}

IeeeMode::~IeeeMode() {
  _mm_setcsr(saved_);
}

#else

IeeeMode::IeeeMode() {
  std::fegetenv(&saved_);
  std::fesetenv(FE_DFL_ENV);
}

IeeeMode::~IeeeMode() {
  std::fesetenv(&saved_);
}

#endif

}  // namespace acan
