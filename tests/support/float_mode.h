// FlushToZero: a thread that takes denormal numbers for zeros, as code that was linked with
// -ffast-math leaves it.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace acan::test {

#if defined(__SSE2__)

inline constexpr std::uint64_t kFlushing = 0x8040;  // of results and of operands
inline std::uint64_t FloatMode() {
  return _mm_getcsr();
}
inline void SetFloatMode(std::uint64_t mode) {
  _mm_setcsr(static_cast<std::uint32_t>(mode));
}

#elif defined(__aarch64__)

inline constexpr std::uint64_t kFlushing = std::uint64_t{1} << 24;
inline std::uint64_t FloatMode() {
  std::uint64_t mode = 0;
  __asm__ __volatile__("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void SetFloatMode(std::uint64_t mode) {
  __asm__ __volatile__("msr fpcr, %0" : : "r"(mode));
}

#else  // Other processors never flush here, so the tests show nothing.

inline constexpr std::uint64_t kFlushing = 0;
inline std::uint64_t FloatMode() {
  return 0;
}
inline void SetFloatMode(std::uint64_t) {}

#endif

inline bool Flushes() {
  return (FloatMode() & kFlushing) != 0;
}

// Until the end of the scope. Comparisons of floats take denormal numbers for zeros, too.
class FlushToZero {
 public:
  FlushToZero() : saved_(FloatMode()) { SetFloatMode(saved_ | kFlushing); }
  ~FlushToZero() { SetFloatMode(saved_); }
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;

 private:
  std::uint64_t saved_;
};

}  // namespace acan::test
