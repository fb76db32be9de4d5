// What the host passes to the kernels of kernels/*.cu, and how it finds these kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acan/core/operators/kernels.h"
#include "acan/kernels/shared_columns.h"

namespace acan::cuda {

// ---- products: c[m, n] = a * b^T, summed over k in leaves of `block` ---------------------------

// Element (row, k) is data[row * row_stride + k * k_stride]. One of the strides is 1.
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

// The layout of an exact product's operands. All but kAny read and write four aligned words at
// once.
enum class GemmLayout : std::uint8_t {
  kRowRow,  // k is contiguous in both: forward
  kRowK,    // k is contiguous in a only: backward
  kKK,      // k is contiguous in neither: gradient
  kAny,
};

// The kernel for square tiles of 128, 64 or 32 elements. Its parameters: Product, then the number
// of tiles across c. A block has twice as many threads as the tile's edge has elements; each tile
// has one block.
//
// TileDesign is what its source asks of the compiler; each .cu checks its own.
struct TileDesign {
  int blocks;       // that a multiprocessor holds at once
  int local_bytes;  // of a thread, for the levels of the tree
};
constexpr TileDesign kDesign128{2, 2048};
constexpr TileDesign kDesign64{4, 1024};
constexpr TileDesign kDesign32{8, 2048};
const void* Gemm128(GemmLayout layout);
const void* Gemm64(GemmLayout layout);
const void* Gemm32(GemmLayout layout);

// ---- products for compute capability 8.0 and later: kernels/gemm_ring.cuh ---------------------

constexpr int kRingStep = 16;      // of k
constexpr int kLevelQuarters = 4;  // of a level of the tree

// Each block has a tile of c and a part of k: x counts the tiles, y the parts.
struct RingProduct {
  Product product;
  unsigned tiles_down = 0, tiles_across = 0;
  int shared_quarters = 0;  // of the tree's lowest level, in shared memory after the stages
  // part_k: elements of k in a part, which is a node of the tree or a group of rows; with one part,
  // k or more.
  // part_words: words of c between the sums of neighbouring parts; with one part, any number.
  std::int64_t part_k = 0;
  std::int64_t part_words = 0;
};

// What the source asks of the compiler and of the device.
struct RingDesign {
  int rows, cols;    // of a tile
  int threads;       // of a block
  int blocks;        // that a multiprocessor holds at once, as limited by registers
  int stages;        // steps of k in shared memory
  int local_levels;  // of the tree, in local memory

  constexpr int sums() const { return rows * cols / threads; }
  constexpr int local_bytes() const { return local_levels * sums() * 4; }           // of a thread
  constexpr int quarter_bytes() const { return rows * cols * 4 / kLevelQuarters; }  // of a block
  // In shared memory: see the drawing in gemm_ring.cuh.
  constexpr int stages_bytes() const { return stages * kRingStep * (rows + cols + 8) * 4; }
};
constexpr RingDesign kRingDesign128{128, 128, 256, 2, 2, 7};
constexpr RingDesign kRingDesign64{64, 64, 128, 4, 3, 7};
constexpr RingDesign kRingDesign32{32, 32, 64, 8, 4, 31};
// A kernel that was compiled for a lower capability computes nothing.
const void* Ring128(GemmLayout layout);
const void* Ring64(GemmLayout layout);
const void* Ring32(GemmLayout layout);

// Adds parts, each of them packed, as neighbours in the tree. Up to kMaxParts of them are a chunk,
// which is a node of the tree. The sum of a chunk may replace its first part.
constexpr int kMaxParts = 16;
struct Parts {
  const float* from = nullptr;
  int count = 0;
  unsigned words = 0;           // of a part
  unsigned cols = 0;            // of c
  std::int64_t part_words = 0;  // from one part to the next one
  float* c = nullptr;           // the sum of the first chunk
  std::int64_t c_stride = 0;
  std::int64_t chunk_words = 0;  // from the sum of one chunk to the next one
};
constexpr int kPartsThreads = 256;
// The kernel's parameter: Parts. Its blocks: any number (x) for each chunk (y).
const void* AddPartsKernel();

// ---- attention by tiles of queries or keys: kernels/attention_tile.cuh --------------------------

constexpr int kAttentionThreads = 128;
constexpr int kMaxAttentionWidth = 128;  // of a head
// The tiles of a kernel. A thread has 8 rows of a tall tile, and 4 rows of the others.
enum class AttentionShape : std::uint8_t {
  kTall,  // 128 rows, heads of up to 64 columns
  kLow,   // 64 rows, heads of up to 64 columns
  kWide,  // 64 rows, heads of up to 128 columns
};
constexpr int AttentionTileRows(AttentionShape shape) {
  return shape == AttentionShape::kTall ? 128 : 64;
}
// The levels of the tree over leaves of 64, by the rows of a thread. More levels would take more
// local memory than products do.
constexpr int AttentionLevels(int rows) {
  return rows == 8 ? 8 : 12;
}
constexpr std::int64_t MostAttentionRows(AttentionShape shape) {
  return std::int64_t{64} << AttentionLevels(shape == AttentionShape::kTall ? 8 : 4);
}
// The number that a multiprocessor holds at once, as limited by registers.
constexpr int AttentionBlocks(int rows) {
  return rows == 8 ? 3 : 4;
}
struct AttentionTileKernel {
  const void* kernel = nullptr;
  std::size_t shared_bytes = 0;
};
// These kernels' parameter: LaunchArgs. Blocks have one dimension. The forward pass has a block for
// each tile of queries of each head.
AttentionTileKernel AttentionForward(AttentionShape shape);
// The gradient launches three kernels, one after the other, with a block for each kAttentionTerms
// query heads, for each tile of keys of each head of keys, and for each tile of queries of each
// head.
constexpr int kAttentionTerms = 64;
AttentionTileKernel AttentionTerms(AttentionShape shape);
AttentionTileKernel AttentionKeyGradient(AttentionShape shape, bool dropout);
AttentionTileKernel AttentionQueryGradient(AttentionShape shape);

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

// Row kernels whose rows have a block each. 128 rows with a thread each would be only four warps,
// and neighbouring threads would read words that are a row apart. The rows of the other row kernels
// are pixels, of which there are many; each has a few threads, which share nothing (RunThreads).
constexpr int kRowThreads = 128;
constexpr int kMaxRowThreads = 512;
constexpr bool IsRowOfABlock(Kernel kernel) {
  switch (kernel) {
    case Kernel::kNorm:
    case Kernel::kNormGradient:
    case Kernel::kRowSquares:
    case Kernel::kRotary:
    case Kernel::kEmbedding:
    case Kernel::kPositions:
    case Kernel::kSoftmaxCrossEntropy:
    case Kernel::kSquaredError:
    case Kernel::kClassMaxima:
    case Kernel::kClassSums:
    case Kernel::kCrossEntropyGradient:
    case Kernel::kEmbeddingGradient:
    case Kernel::kPositionsGradient:
    case Kernel::kDropout:
    case Kernel::kAttentionJoin:
    case Kernel::kGroupNorm:
    case Kernel::kGroupNormGradient:
      return true;
    default:
      return false;
  }
}

// The threads of such a row. A row of a large vocabulary has more, so that few rows, too, keep
// enough loads in flight. In kernels with chains, each thread has a leaf, and there are kRowThreads
// at most.
constexpr int RowThreads(Kernel kernel, std::int64_t cols) {
  constexpr std::int64_t kLongRow = 4096;
  const bool chains = kernel == Kernel::kSoftmaxCrossEntropy || kernel == Kernel::kSquaredError;
  return chains || cols < kLongRow ? kRowThreads : kMaxRowThreads;
}

// The threads of a row in the kernels whose rows share a block. Each thread has about four elements
// of a run of elements that are contiguous in all operands, since it first computes where they are.
// But there are at least as many threads as read a sector of 32 bytes.
constexpr int RunThreads(std::int64_t run) {
  constexpr int kSector = 8;
  int threads = 1;
  while (threads < kSector && threads < run) threads *= 2;
  while (threads < kRowThreads && 8 * threads <= run) threads *= 2;
  return threads;
}

// In kernels with HasSharedColumns, each thread of a column sums a leaf; 768 columns with a thread
// each would be only 24 warps. A block has kColumnThreads, or up to kMaxColumnThreads where columns
// have more leaves. Where the leaves take several turns, it has kLongColumns columns.
constexpr int kColumnThreads = 256;
constexpr int kMaxColumnThreads = 512;
constexpr int kLongColumns = 8;

// The other column kernels have a thread for each column, in small blocks, so that long sums of one
// thread are spread over all multiprocessors.
constexpr int kSumThreads = 32;
constexpr int kElementThreads = 256;
// In kernels over tiles, at most kMaxTilePlaces threads of a lane share the columns of a head,
// kTileColumns at a time.
constexpr int kTileColumns = 16;
constexpr int kMaxTilePlaces = kElementThreads / ACAN_TILE_LANES;
// The most threads of a block.
constexpr int MostThreads(Kernel kernel) {
  return IsRowOfABlock(kernel)      ? kMaxRowThreads
         : HasSharedColumns(kernel) ? kMaxColumnThreads
                                    : kElementThreads;
}

// The kernel of a row of operators.inc; its parameter: LaunchArgs. Element kernels run over a
// two-dimensional grid of any size (x: columns). Kernels over tiles run over a grid with a block
// for each column of tiles, and with rows along y. The others use x alone. launch_grid.h has the
// grids.
const void* TableKernel(Kernel kernel);

}  // namespace acan::cuda
