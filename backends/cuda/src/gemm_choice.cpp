#include "gemm_choice.h"

#include <algorithm>
#include <bit>

#include "acan/cuda/planted.h"

namespace acan::cuda {
namespace {

struct TileSpeed {
  GemmTile tile;
  double full;  // of a multiprocessor that is full of them, against its peak
  double one;   // of a multiprocessor that has a single one
};

// Estimates from instructions and warps: no measurement has been made yet.
constexpr TileSpeed kSpeeds[] = {
    {GemmTile::k128, 0.85, 0.6}, {GemmTile::k64, 0.7, 0.3}, {GemmTile::k32, 0.45, 0.1}};

std::int64_t Cut(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step;
}

bool Aligned(const float* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

bool Aligned(const Operand& operand, std::int64_t rows) {
  const bool k_first = operand.k_stride != 1;
  if (!Aligned(operand.data)) return false;
  return k_first ? operand.k_stride % 4 == 0 && rows % 4 == 0 : operand.row_stride % 4 == 0;
}

}  // namespace

int EdgeOf(GemmTile tile) {
  return tile == GemmTile::k128 ? 128 : tile == GemmTile::k64 ? 64 : 32;
}

GemmLayout LayoutOf(const Product& p) {
  const bool careless = IsPlanted(CudaBug::kQuadsNeedNoAlignment);
  if (!careless &&
      (!Aligned(p.a, p.m) || !Aligned(p.b, p.n) || !Aligned(p.c) || p.c_stride % 4 != 0)) {
    return GemmLayout::kAny;
  }
  const bool a_k_first = p.a.k_stride != 1;
  const bool b_k_first = p.b.k_stride != 1;
  if (a_k_first) return b_k_first ? GemmLayout::kKK : GemmLayout::kAny;
  return b_k_first ? GemmLayout::kRowK : GemmLayout::kRowRow;
}

GemmTile ChooseTile(std::int64_t m, std::int64_t n, int multiprocessors) {
  GemmTile best = GemmTile::k128;
  double best_time = 0;
  for (const TileSpeed& each : kSpeeds) {
    const std::int64_t edge = EdgeOf(each.tile);
    const std::int64_t tiles = Cut(m, edge) * Cut(n, edge);
    const auto work = static_cast<double>(edge * edge);
    // The multiprocessor with the most tiles decides; a few of them together hide their waiting.
    const auto most = static_cast<double>(Cut(tiles, multiprocessors));
    const double time = std::max(most * work / each.full, work / each.one);
    if (best_time == 0 || time < best_time) {
      best = each.tile;
      best_time = time;
    }
  }
  return best;
}

GemmTile WithLevelsFor(GemmTile tile, std::int64_t leaves) {
  constexpr int kLevels = 8;  // of the larger tiles' kernels
  return std::bit_width(static_cast<std::uint64_t>(leaves - 1)) <= kLevels ? tile : GemmTile::k32;
}

}  // namespace acan::cuda
