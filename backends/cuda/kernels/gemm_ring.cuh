// Exact products for compute capability 8.0 and later, with tiles of one size, which the including
// file chooses. The bits are those of gemm_quads.cuh. The differences:
//
//   - Asynchronous copies (cp.async) bring the next steps of 16 k of the operands into a ring of
//     stages in shared memory, bypassing registers. Copies of four bytes transpose an operand whose
//     k is contiguous. An operand whose rows are contiguous is copied sixteen bytes at a time if it
//     is aligned.
//   - Whole steps have a loop of their own, without tests for edges: rows beyond the last one
//     repeat it, and a short last step of k follows the loop.
//   - Factors are read one k ahead, and copies begin one by one between multiplications.
//   - The lowest level of the tree, which every leaf uses, is in shared memory, or as many quarters
//     of it as do not reduce the number of blocks. The rest is in local memory.
//   - A block sums a part of k, which is a node of the tree, so that small products have blocks for
//     the whole device. Another kernel adds the parts as the tree does (parts.cu).
//
//   a stage:             kTileM + 4 words                  kTileN + 4 words
//
//             k = 0   a[0, 0]  a[1, 0]  ..  | 4      b[0, 0]  b[1, 0]  ..  | 4
//                 1   a[0, 1]  a[1, 1]  ..  | un-    b[0, 1]  b[1, 1]  ..  | un-
//                 ..  ..                    | used   ..                    | used
//                 15
//
// The pitch puts four rows of eight k, as a warp's copies of four bytes write them, into 32
// different banks, and keeps quads of rows aligned. Neighbouring lanes of a warp share their quads
// of b, and lanes two apart share those of a, so that half a warp reads at most 128 different
// bytes.
//
// Includers define ACAN_WARPS_M, ACAN_WARPS_N (warps of a block, down and across), ACAN_QUADS_M,
// ACAN_QUADS_N (quads of rows and of columns of one thread), ACAN_STAGES, ACAN_LOCAL_LEVELS (levels
// of the tree in local memory) and ACAN_BLOCKS_PER_MULTIPROCESSOR. They may define ACAN_LANES_OF_K
// as 8 or 16.
#if !defined(ACAN_LANES_OF_K)
#define ACAN_LANES_OF_K 8
#endif
#include "kernel_args.h"
#include "prelude.cuh"

namespace acan::cuda {
namespace {

constexpr int kStep = kRingStep;
constexpr int kStages = ACAN_STAGES;
// The lanes that copy a row at once, if its k is contiguous. 16 lanes touch half as many cache
// lines as 8 do; 8 lanes write to 32 different banks.
constexpr int kLanesOfK = ACAN_LANES_OF_K;
constexpr int kTileM = ACAN_WARPS_M * ACAN_QUADS_M * 16;
constexpr int kTileN = ACAN_WARPS_N * ACAN_QUADS_N * 32;
constexpr int kThreads = ACAN_WARPS_M * ACAN_WARPS_N * 32;
constexpr int kRows = ACAN_QUADS_M * 4;  // of one thread
constexpr int kCols = ACAN_QUADS_N * 4;
constexpr int kSums = kRows * kCols;
constexpr int kPitchA = kTileM + 4;
constexpr int kPitchB = kTileN + 4;
constexpr int kWordsOfA = kStep * kPitchA;
constexpr int kStageWords = kStep * (kPitchA + kPitchB);
constexpr int kLastStage = (kStages - 1) * kStageWords;
constexpr unsigned kRowsOfTilesTogether = 16;
constexpr int kCopiesOfK = 4;  // the most that begin between the multiplications of one k

constexpr bool IsOfDesign(const RingDesign& design) {
  return design.rows == kTileM && design.cols == kTileN && design.threads == kThreads &&
         design.blocks == ACAN_BLOCKS_PER_MULTIPROCESSOR &&
         design.local_levels == ACAN_LOCAL_LEVELS && design.sums() == kSums &&
         design.stages == kStages && design.stages_bytes() == kStages * kStageWords * 4;
}

// Where one thread reads its words of each step, and where it writes them. The distance in bytes
// from the first word of the tile's step to the thread's words fits into 32 bits, unless `Offset`
// has 64.
template <int kTile, typename Offset>
struct Source {
  static constexpr int kMaxCopies = kTile * kStep / kThreads;
  static constexpr int kPitch = kTile + 4;
  static_assert(kMaxCopies * kThreads == kTile * kStep && kThreads % kTile == 0);

  const char* from;  // of the next step; the same for all threads
  acan_i64 advance;  // bytes from one step to the next one
  Offset offsets[kMaxCopies];
  int to;       // word of the first copy in the operand's part of a stage
  int to_next;  // words from one copy to the next one
  int k;        // of the first copy, within the step
  int k_next;
};

// `rows`: of the operand; rows beyond its last one repeat it. k_first: neighbours in memory belong
// to one k and not to one row. quads: each copy then has four rows.
template <int kTile, typename Offset>
__device__ __forceinline__ Source<kTile, Offset> FindSource(const Operand& operand, acan_i64 rows,
                                                            acan_i64 row0, acan_i64 k0,
                                                            bool k_first, bool quads) {
  using Of = Source<kTile, Offset>;
  const int thread = static_cast<int>(threadIdx.x);
  const acan_i64 last = rows - row0 - 1;
  Of s;
  s.from = reinterpret_cast<const char*>(operand.data + row0 * operand.row_stride +
                                         k0 * operand.k_stride);
  s.advance = kStep * 4 * operand.k_stride;
  if (k_first) {
    const int width = quads ? 4 : 1;
    const int lanes = kTile / width;
    const int within = thread % lanes * width;
    const acan_i64 row = within < last + 1 - width ? within : last + 1 - width;
    s.k = thread / lanes;
    s.k_next = kThreads / lanes;
    s.to = s.k * Of::kPitch + within;
    s.to_next = s.k_next * Of::kPitch;
    ACAN_UNROLL for (int i = 0; i < Of::kMaxCopies; ++i) {
      s.offsets[i] = static_cast<Offset>((row + (s.k + i * s.k_next) * operand.k_stride) * 4);
    }
  } else {
    const int within = thread / kLanesOfK;
    s.k = thread % kLanesOfK;
    s.k_next = kLanesOfK;
    s.to = s.k * Of::kPitch + within;
    s.to_next = kThreads / kLanesOfK;
    ACAN_UNROLL for (int i = 0; i < Of::kMaxCopies; ++i) {
      const int wanted = within + i * (kThreads / kLanesOfK);
      const acan_i64 row = wanted < last ? wanted : last;
      s.offsets[i] = static_cast<Offset>((row * operand.row_stride + s.k) * 4);
    }
  }
  return s;
}

// The number of copies that a thread begins for one step.
template <int kTile, typename Offset>
constexpr int CopiesOf(bool quads) {
  return Source<kTile, Offset>::kMaxCopies / (quads ? 4 : 1);
}

// Begins copy `i` of the next step, of which `left` k exist. Nothing is read beyond them.
template <int kTile, typename Offset>
__device__ __forceinline__ void CopyOne(const Source<kTile, Offset>& s, bool k_first, bool quads,
                                        int i, int left, bool wanted, float* part) {
  if (k_first) {
    acan_copy_async(part + s.to + i * s.to_next, s.from + s.offsets[i], quads ? 16 : 4,
                    wanted && (left >= kStep || s.k + i * s.k_next < left));
  } else {
    constexpr int kOfRow = kStep / kLanesOfK;
    const int row = i / kOfRow;
    const int k = i % kOfRow * kLanesOfK;
    acan_copy_async(part + s.to + row * s.to_next + k * (kTile + 4),
                    s.from + s.offsets[row] + k * 4, 4,
                    wanted && (left >= kStep || s.k + k < left));
  }
}

// A thread's factors for one k.
struct Factors {
  float a[kRows];
  float b[kCols];
};

// mine_a, mine_b: the thread's first words in the parts of a stage.
__device__ __forceinline__ void ReadFactors(const float* mine_a, const float* mine_b, int k,
                                            Factors& out) {
  ACAN_UNROLL for (int i = 0; i < ACAN_QUADS_M; ++i) {
    const float4 quad = *reinterpret_cast<const float4*>(mine_a + k * kPitchA + i * 16);
    out.a[i * 4] = quad.x;
    out.a[i * 4 + 1] = quad.y;
    out.a[i * 4 + 2] = quad.z;
    out.a[i * 4 + 3] = quad.w;
  }
  ACAN_UNROLL for (int i = 0; i < ACAN_QUADS_N; ++i) {
    const float4 quad = *reinterpret_cast<const float4*>(mine_b + k * kPitchB + i * 32);
    out.b[i * 4] = quad.x;
    out.b[i * 4 + 1] = quad.y;
    out.b[i * 4 + 2] = quad.z;
    out.b[i * 4 + 3] = quad.w;
  }
}

// Every other column runs from its last row to its first. An instruction that needs three registers
// at once waits for one of them, unless an earlier instruction left a factor in the operand's reuse
// register: the hardware keeps the last even and the last odd register of each operand. For this
// order the compiler finds a schedule with fewer reads than for rows, or for columns that all run
// downwards.
__device__ __forceinline__ void MultiplyColumn(const Factors& f, int col, float* sums) {
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    const int row = col % 2 == 0 ? i : kRows - 1 - i;
    sums[row * kCols + col] = ACAN_FMA(f.a[row], f.b[col], sums[row * kCols + col]);
  }
}

}  // namespace
}  // namespace acan::cuda

#include "gemm_ring_tree.cuh"

namespace acan::cuda {
namespace {

// ---- the tile ----------------------------------------------------------------------------------

// Orders the tiles such that those that run at once share rows of a and of b in the L2 cache.
struct TilePlace {
  acan_i64 row, col;  // the tile's first row and column in c
};
__device__ __forceinline__ TilePlace PlaceOfTile(unsigned number, unsigned down, unsigned across) {
  const unsigned band = number / (kRowsOfTilesTogether * across);
  const unsigned first = band * kRowsOfTilesTogether;
  const unsigned rows = down - first < kRowsOfTilesTogether ? down - first : kRowsOfTilesTogether;
  const unsigned within = number - first * across;
  return {static_cast<acan_i64>(first + within % rows) * kTileM,
          static_cast<acan_i64>(within / rows) * kTileN};
}

// Lane i of a warp has quad i / 16 * 2 + i % 2 of its rows and i / 2 % 8 of its columns.
__device__ __forceinline__ int FirstRowOf(int thread) {
  return thread / 32 / ACAN_WARPS_N * (16 * ACAN_QUADS_M) + (thread / 16 % 2 * 2 + thread % 2) * 4;
}
__device__ __forceinline__ int FirstColOf(int thread) {
  return thread / 32 % ACAN_WARPS_N * (32 * ACAN_QUADS_N) + thread / 2 % 8 * 4;
}

__device__ __forceinline__ float Stored(float sum) {
  return sum == sum ? sum : ACAN_NAN;
}

// Stores one quad of a row of c. `wide`: four words at once are aligned.
__device__ __forceinline__ void StoreQuad(float* row, acan_i64 col, acan_i64 cols, bool wide,
                                          const float* sums) {
  if (wide && col + 3 < cols) {
    float4 quad;
    quad.x = Stored(sums[0]);
    quad.y = Stored(sums[1]);
    quad.z = Stored(sums[2]);
    quad.w = Stored(sums[3]);
    *reinterpret_cast<float4*>(row + col) = quad;
    return;
  }
  ACAN_UNROLL for (int i = 0; i < 4; ++i) {
    if (col + i < cols) row[col + i] = Stored(sums[i]);
  }
}

__device__ __forceinline__ void StoreTile(const RingProduct& p, const TilePlace& tile, float* c,
                                          const float* sums) {
  const int thread = static_cast<int>(threadIdx.x);
  const acan_i64 first_row = tile.row + FirstRowOf(thread);
  const acan_i64 first_col = tile.col + FirstColOf(thread);
  const bool wide = reinterpret_cast<std::uintptr_t>(c) % 16 == 0 && p.product.c_stride % 4 == 0;
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    const acan_i64 row = first_row + i / 4 * 16 + i % 4;
    if (row >= p.product.m) continue;
    ACAN_UNROLL for (int j = 0; j < ACAN_QUADS_N; ++j) {
      StoreQuad(c + row * p.product.c_stride, first_col + j * 32, p.product.n, wide,
                sums + i * kCols + j * 4);
    }
  }
}

// What one block multiplies.
template <bool kVector, bool kAKFirst, bool kBKFirst>
struct Ring {
  using Offset = std::conditional_t<kVector, unsigned, acan_i64>;
  static constexpr bool kAQuads = kVector && kAKFirst;
  static constexpr bool kBQuads = kVector && kBKFirst;

  // Whether copies begin one by one between multiplications. If a copy must test the layout of its
  // operand, they begin together.
  static constexpr bool kSpread = kVector;

  float* stages;
  Source<kTileM, Offset> a;
  Source<kTileN, Offset> b;
  bool a_k_first, b_k_first;

  __device__ __forceinline__ Ring(const RingProduct& p, const TilePlace& tile, acan_i64 k0,
                                  float* memory)
      : stages(memory),
        a_k_first(kVector ? kAKFirst : p.product.a.k_stride != 1),
        b_k_first(kVector ? kBKFirst : p.product.b.k_stride != 1) {
    a = FindSource<kTileM, Offset>(p.product.a, p.product.m, tile.row, k0, a_k_first, kAQuads);
    b = FindSource<kTileN, Offset>(p.product.b, p.product.n, tile.col, k0, b_k_first, kBQuads);
  }

  // Begins copy `i` of the next step, of which `left` k exist, into the stage at word `stage`.
  static constexpr int kCopiesOfA = CopiesOf<kTileM, Offset>(kAQuads);
  static constexpr int kCopies = kCopiesOfA + CopiesOf<kTileN, Offset>(kBQuads);
  __device__ __forceinline__ void Copy(int i, int stage, int left, bool wanted = true) {
    if (i < kCopiesOfA) {
      CopyOne(a, a_k_first, kAQuads, i, left, wanted, stages + stage);
    } else {
      CopyOne(b, b_k_first, kBQuads, i - kCopiesOfA, left, wanted, stages + stage + kWordsOfA);
    }
  }
  __device__ __forceinline__ void EndCopies(bool wanted = true) {
    if (wanted) {
      a.from += a.advance;
      b.from += b.advance;
    }
    __pipeline_commit();
  }
  __device__ __forceinline__ void CopyIf(int stage, bool wanted) {
    ACAN_UNROLL for (int i = 0; i < kCopies; ++i) Copy(i, stage, kStep, wanted);
  }
  __device__ __forceinline__ void CopyAll(int stage, int left) {
    ACAN_UNROLL for (int i = 0; i < kCopies; ++i) Copy(i, stage, left);
    EndCopies();
  }
};

// Sums the step at word `at` of the ring. `first` has the factors of its first k, and receives
// those of the next step. Meanwhile begins the copies of a later step into `stage`.
template <typename Ring>
__device__ __forceinline__ void SumStep(Ring& ring, const float* mine_a, const float* mine_b,
                                        int at, int next, int stage, unsigned steps, Factors& first,
                                        float* sums) {
  const bool copies = steps >= kStages;
  Factors factors[2];
  factors[0] = first;
  if (!Ring::kSpread) ring.CopyIf(stage, copies);
  ACAN_UNROLL for (int k = 0; k < kStep; ++k) {
    const int copy = (k - 1) * kCopiesOfK;
    if (k + 1 < kStep) {
      ReadFactors(mine_a + at, mine_b + at, k + 1, factors[(k + 1) % 2]);
    } else {
      // After the barrier, all threads see what all have copied, and none reads this stage.
      ring.EndCopies(copies);
      __pipeline_wait_prior(kStages - 2);
      ACAN_BARRIER();
      if (steps > 1) ReadFactors(mine_a + next, mine_b + next, 0, factors[(k + 1) % 2]);
    }
    ACAN_UNROLL for (int col = 0; col < kCols; ++col) {
      MultiplyColumn(factors[k % 2], col, sums);
      const int within = col * kCopiesOfK / kCols;
      if (Ring::kSpread && k > 0 && (col + 1) % (kCols / kCopiesOfK) == 0 &&
          copy + within < Ring::kCopies) {
        ring.Copy(copy + within, stage, kStep, copies);
      }
    }
  }
  first = factors[kStep % 2];
}

// Sums one tile over one part of k, which has at least one element.
template <bool kVector, bool kAKFirst, bool kBKFirst>
__device__ __forceinline__ void SumTile(const RingProduct& p, const TilePlace& tile, acan_i64 k0,
                                        float* memory, Levels& levels, float* sums) {
  Ring<kVector, kAKFirst, kBKFirst> ring(p, tile, k0, memory);
  const acan_i64 left = p.product.k - k0;
  const acan_i64 k = left < p.part_k ? left : p.part_k;
  auto to_sum = static_cast<unsigned>(k / kStep);  // whole steps
  const int rest = static_cast<int>(k % kStep);
  const auto steps_of_leaf = static_cast<unsigned>(p.product.block) / kStep;
  const int thread = static_cast<int>(threadIdx.x);
  const float* const mine_a = memory + FirstRowOf(thread);
  const float* const mine_b = memory + kWordsOfA + FirstColOf(thread);
  // Warps whose sums are all beyond the edges of c only copy.
  const bool sums_matter = tile.row + FirstRowOf(thread / 32 * 32) < p.product.m &&
                           tile.col + FirstColOf(thread / 32 * 32) < p.product.n;
  Factors factors;
  ACAN_UNROLL for (unsigned stage = 0; stage + 1 < kStages; ++stage) {
    if (stage < to_sum) {
      ring.CopyAll(static_cast<int>(stage) * kStageWords, kStep);
    } else {
      __pipeline_commit();
    }
  }
  __pipeline_wait_prior(kStages - 2);
  ACAN_BARRIER();
  if (to_sum != 0 && sums_matter) ReadFactors(mine_a, mine_b, 0, factors);
  int at = 0;  // first word of the stage that is summed
  while (to_sum != 0) {
    const unsigned then = to_sum < steps_of_leaf ? 0 : to_sum - steps_of_leaf;
    const bool leaf_ends = then != 0 || (rest != 0 && to_sum == steps_of_leaf);
    ACAN_NO_UNROLL for (; to_sum != then; --to_sum) {
      const int before = at == 0 ? kLastStage : at - kStageWords;
      const int next = at == kLastStage ? 0 : at + kStageWords;
      if (sums_matter) {
        SumStep(ring, mine_a, mine_b, at, next, before, to_sum, factors, sums);
      } else {
        ring.CopyIf(before, to_sum >= kStages);
        ring.EndCopies(to_sum >= kStages);
        __pipeline_wait_prior(kStages - 2);
        ACAN_BARRIER();
      }
      at = next;
    }
    if (leaf_ends && sums_matter) EndLeaf(levels, sums);
  }
  // A short last step is not padded: adding the product of two zeros would turn -0 into 0.
  if (rest != 0) {
    ring.CopyAll(at, rest);
    __pipeline_wait_prior(0);
    ACAN_BARRIER();
    ACAN_NO_UNROLL for (int i = 0; i < rest && sums_matter; ++i) {
      ReadFactors(mine_a + at, mine_b + at, i, factors);
      ACAN_UNROLL for (int col = 0; col < kCols; ++col) MultiplyColumn(factors, col, sums);
    }
  }
  EndTree(levels, sums);
}

template <bool kVector, bool kAKFirst, bool kBKFirst>
__global__ void __launch_bounds__(kThreads, ACAN_BLOCKS_PER_MULTIPROCESSOR)
    RingKernel(const __grid_constant__ RingProduct p) {
#if ACAN_ASYNC_COPIES
  ACAN_DYNAMIC_SHARED(ring);
  float sums[kSums];
  __attribute__((aligned(16))) float local[ACAN_LOCAL_LEVELS][kSums];
  ACAN_UNROLL for (int i = 0; i < kSums; ++i) sums[i] = 0.0f;
  const acan_i64 part = blockIdx.y;
  const TilePlace tile = PlaceOfTile(blockIdx.x, p.tiles_down, p.tiles_across);
  Levels levels = {ring + kStages * kStageWords, p.shared_quarters, local, 0};
  SumTile<kVector, kAKFirst, kBKFirst>(p, tile, part * p.part_k, ring, levels, sums);
  StoreTile(p, tile, p.product.c + part * p.part_words, sums);
#endif
}

const void* RingOf(GemmLayout layout) {
  switch (layout) {
    case GemmLayout::kRowRow:
      return reinterpret_cast<const void*>(&RingKernel<true, false, false>);
    case GemmLayout::kRowK:
      return reinterpret_cast<const void*>(&RingKernel<true, false, true>);
    case GemmLayout::kKK:
      return reinterpret_cast<const void*>(&RingKernel<true, true, true>);
    case GemmLayout::kAny:
      break;
  }
  return reinterpret_cast<const void*>(&RingKernel<false, false, false>);
}

}  // namespace
}  // namespace acan::cuda
