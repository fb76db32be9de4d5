// Exact products as in gemm_ring.cuh, which is included before: for an operand whose k is
// contiguous and whose rows are aligned, copies bring four k of a row at once and transpose
// nothing. Factors are read as they lie, four k of a row or of a column at once: a thread has four
// k of all its columns, and reads those of its rows one row after the other.
//
// A row of such an operand has four quads of k in a stage, 64 bytes. Rows lie in an order in which
// those that the lanes of a warp read together are neighbours, and the quads of a row change places
// with each other by where the row lies. So eight lanes that read one quad of as many rows, or that
// write the quads of two rows, meet 32 different banks:
//
//   of a:  row  0   quads  0 1 2 3         of b:  row  0   quads  0 1 2 3
//          row  4          1 0 3 2                row  4          0 1 2 3
//          row  8          2 3 0 1                row  8          1 0 3 2
//          row 12          3 2 1 0                row 12          1 0 3 2
//          row  1          0 1 2 3                ..
//          ..                                     row 28          3 2 1 0
#pragma once

namespace acan::cuda {
namespace {

constexpr int kQuadsOfStep = kStep / 4;
constexpr int kLanesDown = 4;  // lanes of a warp with different rows, and with different columns
constexpr int kLanesAcross = 8;

// Where one thread finds its quads of each step, and where they go.
template <int kTile, int kLanes>
struct QuadSource {
  static constexpr int kRowsAtOnce = kThreads / kQuadsOfStep;
  static constexpr int kCopies = kTile / kRowsAtOnce;
  static_assert(kRowsAtOnce % (4 * kLanes) == 0 && kCopies * kRowsAtOnce == kTile);

  const char* from;  // of the next step: the thread's k of the tile's first row
  unsigned stride;   // bytes from one row to the next one
  int row;           // of the first copy, within the tile
  int last;          // row of the operand
  int to;            // word of the first copy in the operand's part of a stage
  int k;             // within the step

  // rows: of the operand; those behind its last one repeat that one.
  __device__ __forceinline__ void Find(const Operand& operand, acan_i64 rows, acan_i64 row0,
                                       acan_i64 k0) {
    const int thread = static_cast<int>(threadIdx.x);
    const int place = thread / kQuadsOfStep;
    const int quad = thread % kQuadsOfStep;
    k = quad * 4;
    from = reinterpret_cast<const char*>(operand.data + row0 * operand.row_stride + k0 + k);
    stride = static_cast<unsigned>(operand.row_stride * 4);
    row = place / (4 * kLanes) * (4 * kLanes) + place % kLanes * 4 + place / kLanes % 4;
    last = static_cast<int>(rows - row0 < kTile ? rows - row0 : kTile) - 1;
    to = place * kStep + (quad ^ place % kLanes / (kLanes / 4)) * 4;
  }
  // Begins copy `i` of the next step, of which `left` k are there, a multiple of four.
  __device__ __forceinline__ void Copy(int i, int left, bool wanted, float* part) const {
    int taken = row;
    // Two instructions find a row. The compiler would keep all rows in registers, which are few.
    asm volatile("" : "+r"(taken));
    taken += i * kRowsAtOnce;
    taken = taken < last ? taken : last;
    const std::uint64_t offset = static_cast<std::uint64_t>(static_cast<unsigned>(taken)) * stride;
    acan_copy_async(part + to + i * kRowsAtOnce * kStep, from + offset, 16,
                    wanted && (left >= kStep || k < left));
  }
};

// Four k of a thread's columns: [column][k], or [k][column] where b's columns are contiguous. And
// of some of its rows, row i in place i % 4.
struct Quads {
  float4 b[kCols];
  float4 a[4];
};
constexpr int kRowsAhead = 3;  // that are read before they are multiplied

__device__ __forceinline__ float OfQuad(const float4& quad, int i) {
  return i == 0 ? quad.x : i == 1 ? quad.y : i == 2 ? quad.z : quad.w;
}

// What one block multiplies. a's k is contiguous, and b's unless kBKFirst.
template <bool kBKFirst>
struct RingAlongK {
  using Ahead = Quads;
  using SourceOfB =
      std::conditional_t<kBKFirst, Source<kTileN, unsigned>, QuadSource<kTileN, kLanesAcross>>;

  float* stages;
  const float* mine_a;  // the thread's first row of the first stage, and its first column
  const float* mine_b;
  int swap_a, swap_b;  // how quads change places there, in words
  QuadSource<kTileM, kLanesDown> a;
  SourceOfB b;

  __device__ __forceinline__ RingAlongK(const RingProduct& p, const TilePlace& tile, acan_i64 k0,
                                        float* memory)
      : stages(memory) {
    const int thread = static_cast<int>(threadIdx.x);
    const int down = FirstRowOf(thread) / 4 % kLanesDown;
    const int across = FirstColOf(thread) / 4 % kLanesAcross;
    mine_a = memory + (FirstRowOf(thread) - 3 * down) * kStep;
    swap_a = down * 4;
    mine_b = memory + kWordsOfA +
             (kBKFirst ? FirstColOf(thread) : (FirstColOf(thread) - 3 * across) * kStep);
    swap_b = across / 2 * 4;
    a.Find(p.product.a, p.product.m, tile.row, k0);
    if constexpr (kBKFirst) {
      b = FindSource<kTileN, unsigned>(p.product.b, p.product.n, tile.col, k0, true, true);
    } else {
      b.Find(p.product.b, p.product.n, tile.col, k0);
    }
  }

  static constexpr int kCopiesOfA = QuadSource<kTileM, kLanesDown>::kCopies;
  static constexpr int kCopies = kCopiesOfA + kTileN * kQuadsOfStep / kThreads;
  __device__ __forceinline__ void Copy(int i, int stage, int left, bool wanted = true) {
    if (i < kCopiesOfA) {
      a.Copy(i, left, wanted, stages + stage);
    } else if constexpr (kBKFirst) {
      CopyOne(b, true, true, i - kCopiesOfA, left, wanted, stages + stage + kWordsOfA);
    } else {
      b.Copy(i - kCopiesOfA, left, wanted, stages + stage + kWordsOfA);
    }
  }
  __device__ __forceinline__ void EndCopies(bool wanted = true) {
    if (wanted) {
      a.from += kStep * 4;
      if constexpr (kBKFirst) {
        b.from += b.advance;
      } else {
        b.from += kStep * 4;
      }
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

  // Of the stage at this word: quad `quad` of k.
  __device__ __forceinline__ float4 ReadRow(int at, int quad, int row) const {
    const int place = row / 4 * (4 * kLanesDown) + row % 4 * kLanesDown;
    return *reinterpret_cast<const float4*>(mine_a + at + (quad * 4 ^ swap_a) + place * kStep);
  }
  __device__ __forceinline__ float4 ReadOfB(int at, int quad, int i) const {
    if constexpr (kBKFirst) {
      constexpr int kOfK = kCols / 4;
      return *reinterpret_cast<const float4*>(mine_b + at + (quad * 4 + i / kOfK) * kPitchB +
                                              i % kOfK * 32);
    } else {
      const int place = i / 4 * (4 * kLanesAcross) + i % 4 * kLanesAcross;
      return *reinterpret_cast<const float4*>(mine_b + at + (quad * 4 ^ swap_b) + place * kStep);
    }
  }
  __device__ __forceinline__ void ReadAhead(int at, Quads& out) const {
    ACAN_UNROLL for (int i = 0; i < kCols; ++i) out.b[i] = ReadOfB(at, 0, i);
    ACAN_UNROLL for (int row = 0; row < kRowsAhead; ++row) out.a[row] = ReadRow(at, 0, row);
  }

  __device__ __forceinline__ static void Multiply(const float4& row, const float4* b, int k, int j,
                                                  float* sums) {
    const float factor =
        kBKFirst ? OfQuad(b[k * (kCols / 4) + j / 4], j % 4) : OfQuad(b[j], k);
    sums[j] = ACAN_FMA(OfQuad(row, k), factor, sums[j]);
  }
  // Four k of one row, each with all columns, so that the row's factor stays in the cache of operands.
  // Where both operands have quads of k, both factors are in even registers or both in odd ones, and
  // the compiler moves each sum to and fro so that it is in the other bank.
  __device__ __forceinline__ static void MultiplyRow(const float4& row, const float4* b,
                                                     float* sums) {
    ACAN_UNROLL for (int i = 0; i < 4 * kCols; ++i) Multiply(row, b, i / kCols, i % kCols, sums);
  }

  // A short step, without reading ahead.
  __device__ __forceinline__ void SumRest(int at, int rest, float* sums) const {
    float4 of_b[kCols];
    ACAN_NO_UNROLL for (int quad = 0; quad < rest / 4; ++quad) {
      ACAN_UNROLL for (int i = 0; i < kCols; ++i) of_b[i] = ReadOfB(at, quad, i);
      ACAN_UNROLL for (int row = 0; row < kRows; ++row) {
        MultiplyRow(ReadRow(at, quad, row), of_b, sums + row * kCols);
      }
    }
  }
};

// As in gemm_ring.cuh. Two quads of k have a turn of a loop, whose code is half as long as that of
// the step.
template <bool kBKFirst>
__device__ __forceinline__ void SumStep(RingAlongK<kBKFirst>& ring, int at, int next, int stage,
                                        unsigned steps, Quads& ahead, float* sums) {
  static_assert(kRows == 16 && kCols == 8);
  constexpr int kLastRead = kRows - kRowsAhead - 1;  // with this row the quad's last one is read
  const bool copies = steps >= kStages;
  ACAN_NO_UNROLL for (int quad = 0; quad < kQuadsOfStep; quad += 2) {
    const bool last = quad + 2 == kQuadsOfStep;
    // Where nothing follows, something is read that nobody uses.
    const int then_at = last && steps > 1 ? next : at;
    const int then_quad = last ? 0 : quad + 2;
    if (!last) {
      // They are few, and the factors of the first rows have been read.
      ring.CopyIf(stage, copies);
      ring.EndCopies(copies);
    }
    float4 other[kCols];
    ACAN_UNROLL for (int row = 0; row < kRows; ++row) {
      const int read = row + kRowsAhead;
      ahead.a[read % 4] = read < kRows ? ring.ReadRow(at, quad, read)
                                       : ring.ReadRow(at, quad + 1, read - kRows);
      if (row % 2 == 1) other[row / 2] = ring.ReadOfB(at, quad + 1, row / 2);
      ring.MultiplyRow(ahead.a[row % 4], ahead.b, sums + row * kCols);
    }
    ACAN_UNROLL for (int row = 0; row < kRows; ++row) {
      const int read = row + kRowsAhead;
      ahead.a[read % 4] = read < kRows ? ring.ReadRow(at, quad + 1, read)
                                       : ring.ReadRow(then_at, then_quad, read - kRows);
      if (row == kLastRead && last) {
        // Behind the barrier all threads see what all have copied, and none reads this stage.
        __pipeline_wait_prior(kStages - 2);
        ACAN_BARRIER();
      }
      if (row >= kLastRead) {
        const int i = (row - kLastRead) * 2;
        ahead.b[i] = ring.ReadOfB(then_at, then_quad, i);
        ahead.b[i + 1] = ring.ReadOfB(then_at, then_quad, i + 1);
      }
      ring.MultiplyRow(ahead.a[row % 4], other, sums + row * kCols);
    }
  }
}

template <bool kBKFirst>
__global__ void __launch_bounds__(kThreads, ACAN_BLOCKS_PER_MULTIPROCESSOR)
    RingAlongKKernel(const __grid_constant__ RingProduct p) {
#if ACAN_ASYNC_COPIES
  ACAN_DYNAMIC_SHARED(ring);
  ComputeTile<RingAlongK<kBKFirst>>(p, ring);
#endif
}

// The others are those of gemm_ring.cuh.
const void* RingAlongKOf(GemmLayout layout) {
  switch (layout) {
    case GemmLayout::kQuadsQuads:
      return reinterpret_cast<const void*>(&RingAlongKKernel<false>);
    case GemmLayout::kQuadsK:
      return reinterpret_cast<const void*>(&RingAlongKKernel<true>);
    default:
      return RingOf(layout);
  }
}

}  // namespace
}  // namespace acan::cuda
