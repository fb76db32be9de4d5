// The body of an instruction set's translation unit, which defines ACAN_ISA_TABLE and includes
// this.
#include "isa/isa.h"
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
// Steps of k per iteration. Sanitizers multiply the size and the compilation time of the code by
// ten, so there it is as short as possible.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kUnrollK = 1;
#else
constexpr int kUnrollK = 4;
#endif

#include "isa/vec_inline.h"

#include "products/pack_inline.h"
#include "products/tile_inline.h"

#if defined(__AVX512F__)
#include "rows/gelu_inline.h"
#endif

#include "rows/launch_inline.h"

#include "products/gemm_inline.h"

#include "attention/tile_inline.h"

#include "attention/forward_inline.h"

#include "attention/backward_inline.h"

#if defined(__AVX2__)
#include "images/depthwise_inline.h"

#include "images/image_tile_inline.h"

#include "images/convolution_inline.h"

#include "images/weights_tile_inline.h"

#include "images/weights_inline.h"

#include "rows/embedding_inline.h"

#include "rows/transpose_inline.h"

// Runs a kernel that has a driver of its own, if the scratch suffices for it. Otherwise returns
// false, and the single source runs.
bool LaunchVectorised(int kernel, const LaunchArgs& launch, const Region& region, float* scratch,
                      int64_t scratch_floats) {
  switch (kernel) {
    case kAttention:
      return RunAttention(KernelArgsOf(launch), region, scratch, scratch_floats);
    case kAttentionGradient:
      return RunAttentionGradient(KernelArgsOf(launch), region, scratch, scratch_floats);
    case kDepthwise:
      return RunDepthwise(launch, region, scratch, scratch_floats);
    case kEmbeddingGradient:
      return RunEmbeddingGradient(KernelArgsOf(launch), region, scratch, scratch_floats);
    case kTranspose:
      RunTranspose(KernelArgsOf(launch), region);
      return true;
    default:
      return false;
  }
}
#else
// Without vectors, the drivers of attention are still faster, since they compute each score once
// for all columns. But they compute whole squares, so most lanes of these must have queries.
bool LaunchVectorised(int kernel, const LaunchArgs& launch, const Region& region, float* scratch,
                      int64_t scratch_floats) {
  if (kernel != kAttention && kernel != kAttentionGradient) return false;
  const acan_args args = KernelArgsOf(launch);
  const bool forward = kernel == kAttention;
  const int64_t queries = acan_attention_call_of(&args, &args.m[forward ? 2 : 3]).queries;
  if (4 * queries < 3 * kEdge * Squares(queries)) return false;
  return forward ? RunAttention(args, region, scratch, scratch_floats)
                 : RunAttentionGradient(args, region, scratch, scratch_floats);
}
bool Convolve(const ConvolutionProblem&, float*, int64_t) {
  return false;
}
bool ConvolveBack(const ConvolutionProblem&, float*, int64_t) {
  return false;
}
bool ConvolveWeights(const WeightsProblem&, float*, int64_t) {
  return false;
}
#endif

// Code without AVX calls the C library for each fma, and the library uses AVX if the CPU has it. If
// the upper halves of vector registers are in use, as another function may have left them, each
// transition between the two takes a hundred nanoseconds.
void ClearUpperHalves() {
#if defined(ACAN_CPU_X86) && !defined(__AVX__)
  static const bool kHasAvx = __builtin_cpu_supports("avx");
  if (kHasAvx) __asm__ volatile("vzeroupper");
#endif
}

void GemmAny(const GemmProblem& problem, float* scratch, int64_t scratch_floats) {
  ClearUpperHalves();
  Gemm(problem, scratch, scratch_floats);
}
void LaunchAny(int kernel, const LaunchArgs& launch, const Region& region, float* scratch,
               int64_t scratch_floats) {
  ClearUpperHalves();
  if (LaunchVectorised(kernel, launch, region, scratch, scratch_floats)) return;
  Launch(kernel, launch, region);
}

}  // namespace

const IsaTable ACAN_ISA_TABLE = {&LaunchAny, &GemmAny, &Convolve, &ConvolveBack, &ConvolveWeights};

}  // namespace acan::cpu
