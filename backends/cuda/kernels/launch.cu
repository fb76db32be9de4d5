// One CUDA kernel for each row of operators.inc.
#include "kernel_args.h"
#include "prelude.cuh"

namespace acan::cuda {
namespace {

// LaunchArgs with the types of the kernels' source.
struct Launch {
  acan_args args;
  acan_i64 rows;
  acan_i64 cols;
};
static_assert(sizeof(Launch) == sizeof(LaunchArgs));
static_assert(offsetof(Launch, args.f) == offsetof(LaunchArgs, f));
static_assert(offsetof(Launch, args.i) == offsetof(LaunchArgs, i));
static_assert(offsetof(Launch, rows) == offsetof(LaunchArgs, region_rows));

__device__ __forceinline__ acan_i64 Place(unsigned block, unsigned size, unsigned thread) {
  return static_cast<acan_i64>(block) * size + thread;
}

// The grid is as wide as the columns (GridOf), but a block loops over rows. If that loop were
// unrolled, it would begin with a division.
#define ACAN_RUN_ELEMENT(function, enumerator)                                          \
  const acan_i64 c = Place(blockIdx.x, blockDim.x, threadIdx.x);                        \
  ACAN_NO_UNROLL for (acan_i64 r = Place(blockIdx.y, blockDim.y, threadIdx.y);          \
                      r < l.rows && c < l.cols; r += Place(gridDim.y, blockDim.y, 0)) { \
    function(&l.args, r, c);                                                            \
  }

static_assert(ACAN_MOST_ROW_THREADS == kMaxRowThreads);
static_assert(ACAN_CHAIN_THREADS == kRowThreads);
// A variable, because device code cannot call host functions, not even constexpr ones.
template <Kernel kernel>
constexpr bool kRowOfABlock = IsRowOfABlock(kernel);

#define ACAN_RUN_ROW(function, enumerator)                         \
  if constexpr (kRowOfABlock<Kernel::enumerator>) {                \
    function(&l.args, blockIdx.x);                                 \
  } else {                                                         \
    const acan_i64 r = Place(blockIdx.x, blockDim.y, threadIdx.y); \
    if (r < l.rows) function(&l.args, r);                          \
  }

static_assert(ACAN_COLUMN_LANES == 1);
static_assert(ACAN_MOST_COLUMN_THREADS == kMaxColumnThreads && ACAN_OPEN_COLUMNS == kLongColumns);
template <Kernel kernel>
constexpr bool kColumnOfABlock = HasSharedColumns(kernel);

#define ACAN_RUN_COLUMN(function, enumerator)                    \
  const acan_i64 c = Place(blockIdx.x, blockDim.x, threadIdx.x); \
  if (kColumnOfABlock<Kernel::enumerator> || c < l.cols) function(&l.args, c, c < l.cols ? 1 : 0);

static_assert(ACAN_ATTENTION_COLUMNS == kTileColumns);
#define ACAN_RUN_TILE(function, enumerator)                   \
  for (acan_i64 r = blockIdx.y; r < l.rows; r += gridDim.y) { \
    function(&l.args, r, blockIdx.x, threadIdx.x);            \
  }

// There are no launch bounds, because with them ptxas spills registers of some kernels.
// tests/backends/cuda/cuda_code_test.py checks that blocks of MostThreads fit.
#define ACAN_OPERATOR(number, enumerator, function, iteration, ...)    \
  __global__ void Run_##enumerator(const __grid_constant__ Launch l) { \
    ACAN_RUN_##iteration(function, enumerator)                         \
  }
#include "acan/core/operators/operators.inc"

}  // namespace

const void* TableKernel(Kernel kernel) {
  switch (kernel) {
#define ACAN_OPERATOR(number, enumerator, ...) \
  case Kernel::enumerator:                     \
    return reinterpret_cast<const void*>(&Run_##enumerator);
#include "acan/core/operators/operators.inc"
  }
  return nullptr;
}

}  // namespace acan::cuda
