// What the host passes to the kernels of kernels/*.cu, and how it finds them.
#pragma once

#include <cstdint>

#include "acan/core/operators/kernels.h"

namespace acan::cuda {

// ---- products: c[m, n] = a * b^T, summed over k in leaves of `block` ---------------------------

// Element (row, k) is data[row * row_stride + k * k_stride], one of which is 1.
struct Operand {
  const float* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t k_stride = 0;
};

struct Product {
  Operand a;
  Operand b;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t block = 0;
};

// How an exact product's operands lie. All but kAny read and write four aligned words at once.
enum class GemmLayout : std::uint8_t {
  kRowRow,  // k is contiguous in both: forward
  kRowK,    // in a only: backward
  kKK,      // in none: gradient
  kAny,
};

// The kernel for square tiles of 128, 64 or 32 elements. Its parameters: Product, then how many
// tiles c has across. Twice as many threads as the edge has elements; one block for each tile.
//
// What its source asks of the compiler; each .cu checks its own.
struct TileDesign {
  int blocks;       // that a multiprocessor holds at once
  int local_bytes;  // of a thread: the levels of the tree
};
constexpr TileDesign kDesign128{2, 2048};
constexpr TileDesign kDesign64{4, 1024};
constexpr TileDesign kDesign32{8, 2048};
const void* Gemm128(GemmLayout layout);
const void* Gemm64(GemmLayout layout);
const void* Gemm32(GemmLayout layout);

// ---- everything else ---------------------------------------------------------------------------

// As acan_args of kernels/args.h, followed by the region.
struct LaunchArgs {
  struct {
    float* data;
    std::int64_t rows, cols, stride;
  } m[kMaxKernelMatrices];
  float f[ACAN_KERNEL_FLOATS];
  std::int64_t i[ACAN_KERNEL_INTEGERS];
  std::int64_t region_rows, region_cols;
};

// Row kernels whose rows have a block each, of so many threads: 128 rows by single threads are four
// warps, and threads side by side would read words that are a row apart. The others have sums whose
// order leaves nothing to share (chains along the row), or are seldom long.
constexpr int kRowThreads = 128;
constexpr bool IsRowOfABlock(Kernel kernel) {
  switch (kernel) {
    case Kernel::kNorm:
    case Kernel::kNormGradient:
    case Kernel::kRowSquares:
    case Kernel::kRotary:
    case Kernel::kEmbedding:
    case Kernel::kPositions:
      return true;
    default:
      return false;
  }
}

// The kernel of a row of operators.inc; its parameter: LaunchArgs. Element kernels run over a
// two-dimensional grid of any size (x: columns), tiles over one of a block for each column and
// rows as they come (y), the others over x alone.
const void* TableKernel(Kernel kernel);

}  // namespace acan::cuda
