#include "products/exact_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "acan/cuda/planted.h"
#include "check.h"

namespace acan::cuda {
namespace {

const void* RingKernelOf(GemmTile tile, GemmLayout layout) {
  switch (tile) {
    case GemmTile::kRing128:
      return Ring128(layout);
    case GemmTile::kRing64:
      return Ring64(layout);
    default:
      return Ring32(layout);
  }
}

const void* QuadsKernelOf(GemmTile tile, GemmLayout layout) {
  return tile == GemmTile::k128  ? Gemm128(layout)
         : tile == GemmTile::k64 ? Gemm64(layout)
                                 : Gemm32(layout);
}

constexpr GemmLayout kLayouts[] = {GemmLayout::kRowRow, GemmLayout::kRowK, GemmLayout::kKK,
                                   GemmLayout::kAny};

// A block may use more than 48 KiB of shared memory only if its kernel was set up for that before a
// launch.
void AllowSharedMemory(GemmTile tile, const GemmGpu& gpu, const std::string& name) {
  const RingDesign& design = *DesignOf(tile);
  const auto bytes = static_cast<int>(SharedBytes(design, gpu));
  for (const GemmLayout layout : kLayouts) {
    const void* const kernel = RingKernelOf(tile, layout);
    Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
          "cudaFuncSetAttribute for shared memory", name);
    if (SharedQuarters(design, gpu) == 0) continue;
    Check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared),
          "cudaFuncSetAttribute for the carve-out", name);
  }
}

int Attribute(cudaDeviceAttr attribute, int ordinal, const std::string& name) {
  int value = 0;
  Check(cudaDeviceGetAttribute(&value, attribute, ordinal), "cudaDeviceGetAttribute", name);
  return value;
}

std::int64_t Quotient(std::int64_t count, std::int64_t size) {  // rounded up
  return (count + size - 1) / size;
}

}  // namespace

GemmGpu GemmGpuOf(int ordinal, int multiprocessors, const std::string& name) {
  cudaFuncAttributes attributes{};
  Check(cudaFuncGetAttributes(&attributes, Ring32(GemmLayout::kAny)), "loading acan's kernels",
        name);
  GemmGpu gpu;
  gpu.multiprocessors = multiprocessors;
  gpu.has_ring = attributes.ptxVersion >= 80;
  gpu.block_shared_bytes =
      static_cast<std::uint64_t>(Attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal, name));
  gpu.shared_bytes = static_cast<std::uint64_t>(
      Attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, ordinal, name));
  return gpu;
}

ExactProducts::ExactProducts(std::string name, const GemmGpu& gpu, const GemmWay& wish,
                             cudaStream_t stream, float* workspace)
    : name_(std::move(name)), gpu_(gpu), wish_(wish), stream_(stream), workspace_(workspace) {
  if (workspace_ == nullptr) gpu_.workspace_bytes = 0;
  for (const GemmTile tile : TilesOf(gpu_)) {
    if (DesignOf(tile) != nullptr) AllowSharedMemory(tile, gpu_, name_);
    if (wish.tile && *wish.tile != tile) continue;
    for (const bool cut : {false, true}) {
      if (cut && (gpu_.workspace_bytes == 0 || DesignOf(tile) == nullptr)) continue;
      if (wish.cut_k && *wish.cut_k != cut) continue;
      ways_.push_back({tile, cut});
    }
  }
  way_ = wish_;
}

void ExactProducts::UseWay(int way) {
  way_ = way < 0 ? wish_ : ways_.at(static_cast<std::size_t>(way));
}

std::vector<const void*> ExactProducts::Kernels() const {
  std::vector<GemmTile> tiles = TilesOf(gpu_);
  if (wish_.tile) tiles.insert(tiles.end(), {*wish_.tile, GemmTile::k32});
  std::vector<const void*> kernels = {AddPartsKernel()};
  for (const GemmTile tile : tiles) {
    const bool ring = DesignOf(tile) != nullptr;
    for (const GemmLayout layout : kLayouts) {
      kernels.push_back(ring ? RingKernelOf(tile, layout) : QuadsKernelOf(tile, layout));
    }
  }
  return kernels;
}

void ExactProducts::Run(const Product& product) {
  const GemmPlan plan = PlanOf(product, gpu_, way_);
  if (DesignOf(plan.tile) == nullptr) {
    RunQuads(product, plan.tile);
  } else {
    RunParts(product, plan, workspace_);
  }
}

void ExactProducts::RunGroups(const Product& product, const GroupsPlan& plan) {
  const std::int64_t words = product.m * product.n;
  const std::int64_t batches = Quotient(plan.groups, plan.batch);
  const std::int64_t batch_rows = plan.batch * plan.group_rows;
  // The sums of batches come first in the workspace, then the parts of one batch.
  float* const parts = batches == 1 ? workspace_ : workspace_ + batches * words;
  for (std::int64_t i = 0; i < batches; ++i) {
    Product batch = product;
    batch.a.data += i * batch_rows * product.a.k_stride;
    batch.b.data += i * batch_rows * product.b.k_stride;
    batch.k = std::min(batch_rows, product.k - i * batch_rows);
    if (batches > 1) {
      batch.c = workspace_ + (IsPlanted(CudaBug::kBatchesShareTheirSum) ? 0 : i * words);
      batch.c_stride = product.n;
    }
    const std::int64_t whole = batch.k / plan.group_rows;
    const bool less = IsPlanted(CudaBug::kShortGroupIsLeftOut) && whole > 0;
    const std::int64_t groups = less ? whole : Quotient(batch.k, plan.group_rows);
    RunParts(batch, {plan.tile, static_cast<int>(groups), plan.group_rows}, parts);
  }
  if (batches > 1) AddParts(product, batches, workspace_);
}

void ExactProducts::RunParts(const Product& product, const GemmPlan& plan, float* parts) {
  RunRing(product, plan, parts);
  if (plan.parts > 1) AddParts(product, plan.parts, parts);
}

void ExactProducts::RunQuads(const Product& product, GemmTile tile) {
  const TileShape shape = ShapeOf(tile);
  const bool less = IsPlanted(CudaBug::kLastTilesAreLeftOut) && product.m > shape.rows;
  const std::int64_t down = less ? product.m / shape.rows : Quotient(product.m, shape.rows);
  auto across = static_cast<unsigned>(Quotient(product.n, shape.cols));
  if (down > INT32_MAX / std::int64_t{across}) {
    throw std::invalid_argument(
        fmt::format("gemm: a result [{}, {}] is too large for {}", product.m, product.n, name_));
  }
  Product copy = product;
  void* parameters[] = {&copy, &across};
  Launch(QuadsKernelOf(tile, LayoutOf(product)), {static_cast<unsigned>(down) * across},
         static_cast<unsigned>(2 * shape.rows), parameters, 0);
}

void ExactProducts::RunRing(const Product& product, const GemmPlan& plan, float* parts) {
  const RingDesign& design = *DesignOf(plan.tile);
  const bool less = IsPlanted(CudaBug::kLastTilesAreLeftOut) && product.m > design.rows;
  const std::int64_t down = less ? product.m / design.rows : Quotient(product.m, design.rows);
  const std::int64_t across = Quotient(product.n, design.cols);
  // The kernel counts tiles, also those of 16 rows of tiles, and steps of k in 32 bits.
  if (across > INT32_MAX / 16 || down > INT32_MAX / across || product.k > INT64_C(8) * INT32_MAX) {
    throw std::invalid_argument(fmt::format("gemm: a product [{}, {}] over {} is too large for {}",
                                            product.m, product.n, product.k, name_));
  }
  RingProduct ring;
  ring.product = product;
  ring.tiles_down = static_cast<unsigned>(down);
  ring.tiles_across = static_cast<unsigned>(across);
  ring.shared_quarters = SharedQuarters(design, gpu_);
  ring.part_k = plan.part_k;
  if (plan.parts > 1) {
    ring.product.c = parts;
    ring.product.c_stride = product.n;
    ring.part_words = product.m * product.n;
  }
  void* parameters[] = {&ring};
  Launch(RingKernelOf(plan.tile, RingLayoutOf(product)),
         {ring.tiles_down * ring.tiles_across, static_cast<unsigned>(plan.parts)},
         static_cast<unsigned>(design.threads), parameters, SharedBytes(design, gpu_));
}

void ExactProducts::AddParts(const Product& product, std::int64_t count, float* parts) {
  if (IsPlanted(CudaBug::kLastPartIsLeftOut)) --count;
  Parts all;
  all.from = parts;
  all.words = static_cast<unsigned>(product.m * product.n);
  all.cols = static_cast<unsigned>(product.n);
  all.part_words = product.m * product.n;
  // A chunk has a power of two of parts, so its sum is a node of the tree, and the tree over chunks
  // is the rest of the tree over parts.
  for (; count > kMaxParts; count = Quotient(count, kMaxParts)) {
    all.count = static_cast<int>(count);
    all.c = parts;
    all.c_stride = product.n;
    all.chunk_words = IsPlanted(CudaBug::kChunksShareTheirSum) ? 0 : kMaxParts * all.part_words;
    LaunchAddition(all);
    all.part_words *= kMaxParts;
  }
  all.count = static_cast<int>(count);
  all.c = product.c;
  all.c_stride = product.c_stride;
  LaunchAddition(all);
}

void ExactProducts::LaunchAddition(const Parts& parts) {
  constexpr std::int64_t kMaxBlocks = 1 << 16;  // the kernel loops over further words
  Parts copy = parts;
  void* parameters[] = {&copy};
  const std::int64_t words = parts.words;
  const std::int64_t blocks = std::min((words + kPartsThreads - 1) / kPartsThreads, kMaxBlocks);
  Launch(AddPartsKernel(),
         {static_cast<unsigned>(blocks), static_cast<unsigned>(Quotient(parts.count, kMaxParts))},
         kPartsThreads, parameters, 0);
}

void ExactProducts::Launch(const void* kernel, dim3 blocks, unsigned threads, void** parameters,
                           std::uint64_t shared_bytes) {
  if (IsPlanted(CudaBug::kTooFewThreads)) threads /= 2;
  const cudaError_t error =
      cudaLaunchKernel(kernel, blocks, {threads}, parameters, shared_bytes, stream_);
  if (error != cudaSuccess) Check(error, "launching gemm", name_);
}

}  // namespace acan::cuda
