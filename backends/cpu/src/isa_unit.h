// The body of one instruction set's unit, which defines ACAN_ISA_TABLE and includes this.
#include "isa.h"
#include "prelude.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define ACAN_INLINE static inline __attribute__((always_inline))
#define ACAN_METHOD static __attribute__((always_inline))
#define ACAN_UNROLL _Pragma("GCC unroll 16")
namespace acan::cpu {
namespace {

constexpr int kLine = 16;  // floats of a cache line
// Steps of k at once. Sanitizers multiply the code, and its compilation time, by ten: no more of it
// than needed there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kUnrollK = 1;
#else
constexpr int kUnrollK = 4;
#endif

#include "vec_inline.h"

#include "pack_inline.h"
#include "tile_inline.h"

#include "launch_inline.h"

#include "gemm_inline.h"

void LaunchAny(int kernel, const LaunchArgs& launch, const Region& region, float* /*scratch*/,
               int64_t /*scratch_floats*/) {
  Launch(kernel, launch, region);
}

}  // namespace

const IsaTable ACAN_ISA_TABLE = {&LaunchAny, &Gemm};

}  // namespace acan::cpu
