#include "device/partition.h"

#include <algorithm>
#include <cassert>

namespace acan::cpu {
namespace {

// With less work, a second thread costs more (a wake-up takes some 30 us) than it saves.
constexpr double kMinFmasPerPart = 4e6;
constexpr std::int64_t kMinElementsPerPart = 64 * 1024;
constexpr std::int64_t kMinTilesPerPart = 2;

// Cuts are at multiples of these, so that few tiles are ragged.
constexpr std::int64_t kRowStep = 12;
constexpr std::int64_t kColStep = 32;

struct Span {
  std::int64_t begin;
  std::int64_t end;
};

Span Share(std::int64_t size, std::int64_t step, int parts, int part) {
  const std::int64_t steps = (size + step - 1) / step;
  return {std::min(size, steps * part / parts * step),
          std::min(size, steps * (part + 1) / parts * step)};
}

std::int64_t StepsOf(std::int64_t size, std::int64_t step) {
  return (size + step - 1) / step;
}

Grid CutTiles(const KernelRegion& region, int threads) {
  const std::int64_t tiles = region.rows * region.cols;
  const std::int64_t parts = std::min<std::int64_t>(threads, tiles / kMinTilesPerPart);
  if (parts < 2) return {};
  const std::int64_t down = std::min(parts, region.rows);
  return {static_cast<int>(down), static_cast<int>(std::min(parts / down, region.cols))};
}

}  // namespace

Grid CutProduct(const GemmProblem& problem, int threads) {
  const double fmas = static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                      static_cast<double>(problem.k);
  const auto limit = static_cast<int>(std::min<double>(threads, fmas / kMinFmasPerPart));
  Grid best;
  double best_cost = static_cast<double>(problem.m + problem.n);
  int best_parts = 1;
  // As many parts as threads if the shape allows; of those choices, the one that packs least.
  for (int rows = 1; rows <= limit; ++rows) {
    const int cols = limit / rows;
    if (rows > StepsOf(problem.m, kRowStep) || cols > StepsOf(problem.n, kColStep)) continue;
    const double cost =
        static_cast<double>(problem.m) / rows + static_cast<double>(problem.n) / cols;
    if (rows * cols > best_parts || (rows * cols == best_parts && cost < best_cost)) {
      best = {rows, cols};
      best_parts = rows * cols;
      best_cost = cost;
    }
  }
  return best;
}

GemmProblem PartOf(const GemmProblem& problem, const Grid& grid, int part) {
  assert(part >= 0 && part < grid.rows * grid.cols);
  const Span m = Share(problem.m, kRowStep, grid.rows, part / grid.cols);
  const Span n = Share(problem.n, kColStep, grid.cols, part % grid.cols);
  GemmProblem out = problem;
  out.a.data += m.begin * problem.a.row_stride;
  out.b.data += n.begin * problem.b.row_stride;
  out.c += m.begin * problem.c_stride + n.begin;
  out.row += m.begin;
  out.col += n.begin;
  out.m = m.end - m.begin;
  out.n = n.end - n.begin;
  return out;
}

Grid CutLaunch(const KernelRegion& region, int threads) {
  if (region.space == KernelSpace::kTile) return CutTiles(region, threads);
  const std::int64_t parts =
      std::min<std::int64_t>(threads, region.rows * region.cols / kMinElementsPerPart);
  if (parts < 2) return {};
  const bool by_cols = region.space == KernelSpace::kColumn ||
                       (region.space == KernelSpace::kElement && region.rows < parts);
  if (by_cols) return {1, static_cast<int>(std::min(parts, StepsOf(region.cols, 64)))};
  return {static_cast<int>(std::min(parts, region.rows)), 1};
}

Region PartOf(const KernelRegion& region, const Grid& grid, int part) {
  assert(part >= 0 && part < grid.rows * grid.cols);
  const Span rows = Share(region.rows, 1, grid.rows, part / grid.cols);
  const std::int64_t col_step = region.space == KernelSpace::kTile ? 1 : 64;
  const Span cols = Share(region.cols, col_step, grid.cols, part % grid.cols);
  return {rows.begin, rows.end, cols.begin, cols.end};
}

}  // namespace acan::cpu
