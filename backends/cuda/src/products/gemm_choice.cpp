#include "products/gemm_choice.h"

#include <algorithm>
#include <bit>

#include "acan/cuda/planted.h"

namespace acan::cuda {
namespace {

struct TileSpeed {
  GemmTile tile;
  // The speed of a multiprocessor that is full of these tiles, relative to its peak.
  double row_row, row_k, k_k;
  double one;  // of a multiprocessor that has a single tile
};

// What an H200 reached with products of 4096 in each layout, and with few tiles of 128 or 512 rows
// (bench/results/).
constexpr TileSpeed kSpeeds[] = {
    {GemmTile::k128, 0.477, 0.53, 0.529, 0.47},     {GemmTile::k64, 0.44, 0.484, 0.525, 0.29},
    {GemmTile::k32, 0.32, 0.356, 0.402, 0.11},      {GemmTile::kRing128, 0.634, 0.65, 0.673, 0.57},
    {GemmTile::kRing64, 0.548, 0.602, 0.638, 0.39}, {GemmTile::kRing32, 0.36, 0.447, 0.547, 0.165},
};
constexpr double kMultipliesPerCycle = 128;  // of a multiprocessor, at its peak
// Costs of a further launch, and the bytes that a multiprocessor moves in a cycle.
constexpr double kLaunchCycles = 3000;
constexpr double kBytesPerCycle = 20;

constexpr std::uint64_t kBlockReserveBytes = 1 << 10;  // of shared memory, which the driver takes

std::int64_t Cut(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step;
}

bool Aligned(const float* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

bool KFirst(const Operand& operand) {
  return operand.k_stride != 1;
}

// Quads of rows are aligned, and none extends beyond the last row.
bool HasQuadsOfRows(const Operand& operand, std::int64_t rows) {
  return Aligned(operand.data) && operand.k_stride % 4 == 0 && rows % 4 == 0;
}

bool HasQuads(const Operand& operand, std::int64_t rows) {
  if (KFirst(operand)) return HasQuadsOfRows(operand, rows);
  return Aligned(operand.data) && operand.row_stride % 4 == 0;
}

// Whether each word of a thread's tile is within 32 bits of bytes from the first one.
bool IsNear(const Operand& operand) {
  constexpr std::int64_t kMaxRows = 256;
  const std::int64_t stride = std::max(operand.row_stride, operand.k_stride);
  return stride <= (std::int64_t{1} << 32) / 4 / kMaxRows - kMaxRows;
}

GemmLayout LayoutOfForm(const Product& p) {
  if (KFirst(p.a)) return KFirst(p.b) ? GemmLayout::kKK : GemmLayout::kAny;
  return KFirst(p.b) ? GemmLayout::kRowK : GemmLayout::kRowRow;
}

// For kAny: some copies are of single words, like those along k.
double FullSpeed(const TileSpeed& speed, GemmLayout layout) {
  switch (layout) {
    case GemmLayout::kRowK:
      return speed.row_k;
    case GemmLayout::kKK:
      return speed.k_k;
    case GemmLayout::kRowRow:
    case GemmLayout::kAny:
      break;
  }
  return speed.row_row;
}

// A launch that adds, and reads and writes this many matrices like c.
double AdditionCycles(const Product& p, const GemmGpu& gpu, double matrices) {
  const double bytes = 4.0 * matrices * static_cast<double>(p.m) * static_cast<double>(p.n);
  return kLaunchCycles + bytes / (gpu.multiprocessors * kBytesPerCycle);
}

// Of the sum of so many matrices like c, which are written and read. A launch adds chunks of up to
// kMaxParts of them, and the next one adds the sums of chunks.
double SumCycles(const Product& p, const GemmGpu& gpu, std::int64_t matrices) {
  double cycles = AdditionCycles(p, gpu, 2.0 * static_cast<double>(matrices));
  for (; matrices > kMaxParts; matrices = Cut(matrices, kMaxParts)) cycles += kLaunchCycles;
  return cycles;
}

// Without the first launch.
double CyclesOf(const Product& p, const GemmGpu& gpu, const TileSpeed& speed,
                const GemmPlan& plan) {
  const TileShape shape = ShapeOf(plan.tile);
  const std::int64_t blocks = Cut(p.m, shape.rows) * Cut(p.n, shape.cols) * plan.parts;
  const double work = static_cast<double>(shape.rows) * shape.cols *
                      static_cast<double>(std::min(p.k, plan.part_k)) / kMultipliesPerCycle;
  // The multiprocessor with the most blocks decides; several blocks together hide their latency.
  const auto most = static_cast<double>(Cut(blocks, gpu.multiprocessors));
  const double product =
      std::max(most * work / FullSpeed(speed, LayoutOfForm(p)), work / speed.one);
  if (plan.parts == 1) return product;
  return product + SumCycles(p, gpu, plan.parts);
}

// A plan with one part, or with parts of this many leaves each.
GemmPlan PlanWith(const Product& p, GemmTile tile, std::int64_t part_leaves) {
  const std::int64_t leaves = Cut(p.k, p.block);
  if (part_leaves >= leaves) return {tile, 1, p.k};
  return {tile, static_cast<int>(Cut(leaves, part_leaves)), part_leaves * p.block};
}

// All possible plans with this tile for the product.
std::vector<GemmPlan> PlansOf(const Product& p, const GemmGpu& gpu, GemmTile tile) {
  const std::int64_t leaves = Cut(p.k, p.block);
  const std::int64_t most = MostLeaves(tile, gpu);
  std::vector<GemmPlan> plans;
  if (leaves <= most) plans.push_back(PlanWith(p, tile, leaves));
  if (DesignOf(tile) == nullptr) return plans;
  const double bytes = 4.0 * static_cast<double>(p.m) * static_cast<double>(p.n);
  auto part_leaves = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(leaves)));
  for (part_leaves /= 2; part_leaves > 0; part_leaves /= 2) {
    const std::int64_t parts = Cut(leaves, part_leaves);
    if (parts > kMaxParts ||
        bytes * static_cast<double>(parts) > static_cast<double>(gpu.workspace_bytes)) {
      break;
    }
    if (part_leaves <= most) plans.push_back(PlanWith(p, tile, part_leaves));
  }
  return plans;
}

const TileSpeed& SpeedOf(GemmTile tile) {
  return *std::find_if(std::begin(kSpeeds), std::end(kSpeeds),
                       [&](const TileSpeed& each) { return each.tile == tile; });
}

// How many matrices like c fit into the workspace.
std::int64_t RoomFor(const Product& p, const GemmGpu& gpu) {
  const auto words = static_cast<std::int64_t>(gpu.workspace_bytes / 4);
  return words / p.m / p.n;
}

// The groups of a launch, where the workspace has room for so many parts and sums of batches.
// 0: there is too little room.
std::int64_t BatchOf(std::int64_t groups, std::int64_t room) {
  constexpr std::int64_t kMaxGroups = 65'535;  // blocks of a launch along y
  if (groups <= std::min(room, kMaxGroups)) return groups;
  auto batch = static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::min(room, kMaxGroups))));
  while (batch > 1 && batch + Cut(groups, batch) > room) batch /= 2;
  return batch > 1 ? batch : 0;
}

// Of the calls that a sum over groups replaces: a product for each group, which may be cut into
// parts of its own, and an addition of two sums for each group but one.
double CyclesOneByOne(const Product& p, std::int64_t group_rows, const GemmGpu& gpu,
                      const GemmWay& way) {
  Product group = p;
  group.k = std::min(p.k, group_rows);
  const GemmPlan plan = PlanOf(group, gpu, way);
  const double product = kLaunchCycles + CyclesOf(group, gpu, SpeedOf(plan.tile), plan);
  const auto groups = static_cast<double>(Cut(p.k, group_rows));
  return groups * product + (groups - 1) * AdditionCycles(p, gpu, 3.0);
}

double CyclesOfBatches(const Product& p, const GroupsPlan& plan, const GemmGpu& gpu) {
  const GemmPlan batch{plan.tile, static_cast<int>(plan.batch), plan.group_rows};
  const std::int64_t batches = Cut(plan.groups, plan.batch);
  const double cycles =
      static_cast<double>(batches) * (kLaunchCycles + CyclesOf(p, gpu, SpeedOf(plan.tile), batch));
  return batches > 1 ? cycles + SumCycles(p, gpu, batches) : cycles;
}

}  // namespace

std::uint64_t WorkspaceBytesOf(std::uint64_t limit_bytes) {
  constexpr std::uint64_t kMost = 32u << 20;
  constexpr std::uint64_t kLeast = 1u << 20;
  const std::uint64_t bytes = std::min(limit_bytes / 16 / 256 * 256, kMost);
  return bytes >= kLeast ? bytes : 0;
}

TileShape ShapeOf(GemmTile tile) {
  if (const RingDesign* const ring = DesignOf(tile)) return {ring->rows, ring->cols};
  const int edge = tile == GemmTile::k128 ? 128 : tile == GemmTile::k64 ? 64 : 32;
  return {edge, edge};
}

const RingDesign* DesignOf(GemmTile tile) {
  switch (tile) {
    case GemmTile::kRing128:
      return &kRingDesign128;
    case GemmTile::kRing64:
      return &kRingDesign64;
    case GemmTile::kRing32:
      return &kRingDesign32;
    default:
      return nullptr;
  }
}

int SharedQuarters(const RingDesign& design, const GemmGpu& gpu) {
  const auto stages = static_cast<std::uint64_t>(design.stages_bytes());
  const std::uint64_t blocks =
      std::clamp<std::uint64_t>(gpu.shared_bytes / (stages + kBlockReserveBytes), 1,
                                static_cast<std::uint64_t>(design.blocks));
  int quarters = kLevelQuarters;
  for (; quarters > 0; --quarters) {
    const std::uint64_t bytes =
        stages + static_cast<std::uint64_t>(quarters * design.quarter_bytes());
    const bool fits = bytes <= gpu.block_shared_bytes &&
                      blocks * (bytes + kBlockReserveBytes) <= gpu.shared_bytes;
    if (fits) break;
  }
  return quarters;
}

std::uint64_t SharedBytes(const RingDesign& design, const GemmGpu& gpu) {
  const int bytes = design.stages_bytes() + SharedQuarters(design, gpu) * design.quarter_bytes();
  return static_cast<std::uint64_t>(bytes);
}

std::int64_t MostLeaves(GemmTile tile, const GemmGpu& gpu) {
  const RingDesign* const ring = DesignOf(tile);
  const int levels = ring != nullptr
                         ? ring->local_levels + SharedQuarters(*ring, gpu) / kLevelQuarters
                     : tile == GemmTile::k32 ? 32
                                             : 8;
  return std::int64_t{1} << levels;
}

std::vector<GemmTile> TilesOf(const GemmGpu& gpu) {
  if (!gpu.has_ring) return {GemmTile::k128, GemmTile::k64, GemmTile::k32};
  return {GemmTile::kRing128, GemmTile::kRing64, GemmTile::kRing32};
}

bool MayHaveTile(const GemmGpu& gpu, GemmTile tile) {
  return DesignOf(tile) == nullptr || gpu.has_ring;
}

GemmLayout LayoutOf(const Product& p) {
  const bool careless = IsPlanted(CudaBug::kQuadsNeedNoAlignment);
  const bool quads =
      HasQuads(p.a, p.m) && HasQuads(p.b, p.n) && Aligned(p.c) && p.c_stride % 4 == 0;
  return quads || careless ? LayoutOfForm(p) : GemmLayout::kAny;
}

GemmLayout RingLayoutOf(const Product& p) {
  const bool careless = IsPlanted(CudaBug::kQuadsNeedNoAlignment);
  const bool quads =
      (!KFirst(p.a) || HasQuadsOfRows(p.a, p.m)) && (!KFirst(p.b) || HasQuadsOfRows(p.b, p.n));
  return IsNear(p.a) && IsNear(p.b) && (quads || careless) ? LayoutOfForm(p) : GemmLayout::kAny;
}

GemmPlan PlanOf(const Product& p, const GemmGpu& gpu, const GemmWay& way) {
  std::vector<GemmTile> tiles = TilesOf(gpu);
  if (way.tile)
    tiles = {*way.tile, DesignOf(*way.tile) != nullptr ? GemmTile::kRing32 : GemmTile::k32};
  GemmPlan best;
  double best_cycles = 0;
  for (const GemmTile tile : tiles) {
    std::vector<GemmPlan> plans = PlansOf(p, gpu, tile);
    // In ascending order of the number of parts.
    if (way.cut_k == false) std::erase_if(plans, [](const GemmPlan& of) { return of.parts > 1; });
    if (way.cut_k == true && plans.size() > 1) plans.erase(plans.begin(), plans.end() - 1);
    for (const GemmPlan& plan : plans) {
      const double cycles = CyclesOf(p, gpu, SpeedOf(tile), plan);
      if (best_cycles != 0 && cycles >= best_cycles) continue;
      best = plan;
      best_cycles = cycles;
    }
    if (way.tile && best_cycles != 0) break;
  }
  return best;
}

std::optional<GroupsPlan> GroupsPlanOf(const Product& p, std::int64_t group_rows,
                                       const GemmGpu& gpu, const GemmWay& way) {
  const bool other_tile = way.tile && DesignOf(*way.tile) == nullptr;
  if (!gpu.has_ring || other_tile || way.cut_k == false) return std::nullopt;
  const std::int64_t groups = Cut(p.k, group_rows);
  const std::int64_t batch = BatchOf(groups, RoomFor(p, gpu));
  if (groups < 2 || batch == 0) return std::nullopt;
  const std::int64_t leaves = Cut(std::min(p.k, group_rows), p.block);
  std::optional<GroupsPlan> best;
  double best_cycles = 0;
  for (const GemmTile tile : TilesOf(gpu)) {
    const bool last = tile == GemmTile::kRing32;  // it takes the place of one that lacks levels
    if (way.tile && *way.tile != tile && (best || !last)) continue;
    if (leaves > MostLeaves(tile, gpu)) continue;
    const GroupsPlan plan{tile, group_rows, groups, batch};
    const double cycles = CyclesOfBatches(p, plan, gpu);
    if (best && cycles >= best_cycles) continue;
    best = plan;
    best_cycles = cycles;
  }
  // A group is one part of a launch, so a few long groups leave most multiprocessors idle.
  if (way.cut_k != true && best_cycles > CyclesOneByOne(p, group_rows, gpu, way)) {
    return std::nullopt;
  }
  return best;
}

}  // namespace acan::cuda
