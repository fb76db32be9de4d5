// The body of one instruction set's unit, which defines ACAN_ISA_TABLE and includes this.
#include "isa.h"
#include "prelude.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define ACAN_INLINE static inline __attribute__((always_inline))
#define ACAN_METHOD static __attribute__((always_inline))
#define ACAN_UNROLL _Pragma("GCC unroll 16")
// Sanitizers multiply the code, and its compilation time, by ten: no more of it than needed there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ACAN_UNROLL_K
#else
#define ACAN_UNROLL_K _Pragma("GCC unroll 4")
#endif

namespace acan::cpu {
namespace {

#include "vec_inline.h"

#include "pack_inline.h"
#include "tile_inline.h"

#include "launch_inline.h"

#include "gemm_inline.h"

}  // namespace

const IsaTable ACAN_ISA_TABLE = {&Launch, &Gemm};

}  // namespace acan::cpu
