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

std::int64_t Tiles(std::int64_t elements, int edge) {
  return (elements + edge - 1) / edge;
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
    return;
  }
  RunRing(product, plan);
  if (plan.parts > 1) AddParts(product, plan.parts);
}

void ExactProducts::RunQuads(const Product& product, GemmTile tile) {
  const TileShape shape = ShapeOf(tile);
  const bool less = IsPlanted(CudaBug::kLastTilesAreLeftOut) && product.m > shape.rows;
  const std::int64_t down = less ? product.m / shape.rows : Tiles(product.m, shape.rows);
  auto across = static_cast<unsigned>(Tiles(product.n, shape.cols));
  if (down > INT32_MAX / std::int64_t{across}) {
    throw std::invalid_argument(
        fmt::format("gemm: a result [{}, {}] is too large for {}", product.m, product.n, name_));
  }
  Product copy = product;
  void* parameters[] = {&copy, &across};
  Launch(QuadsKernelOf(tile, LayoutOf(product)), {static_cast<unsigned>(down) * across},
         static_cast<unsigned>(2 * shape.rows), parameters, 0);
}

void ExactProducts::RunRing(const Product& product, const GemmPlan& plan) {
  const RingDesign& design = *DesignOf(plan.tile);
  const bool less = IsPlanted(CudaBug::kLastTilesAreLeftOut) && product.m > design.rows;
  const std::int64_t down = less ? product.m / design.rows : Tiles(product.m, design.rows);
  const std::int64_t across = Tiles(product.n, design.cols);
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
    ring.product.c = workspace_;
    ring.product.c_stride = product.n;
    ring.part_words = product.m * product.n;
  }
  void* parameters[] = {&ring};
  Launch(RingKernelOf(plan.tile, RingLayoutOf(product)),
         {ring.tiles_down * ring.tiles_across, static_cast<unsigned>(plan.parts)},
         static_cast<unsigned>(design.threads), parameters, SharedBytes(design, gpu_));
}

void ExactProducts::AddParts(const Product& product, int parts) {
  constexpr std::int64_t kMaxBlocks = 1 << 16;  // the kernel loops over further words
  const std::int64_t words = product.m * product.n;
  const bool less = IsPlanted(CudaBug::kLastPartIsLeftOut);
  Parts all{workspace_,
            less ? parts - 1 : parts,
            static_cast<unsigned>(words),
            static_cast<unsigned>(product.n),
            product.c,
            product.c_stride};
  void* parameters[] = {&all};
  const std::int64_t blocks = std::min((words + kPartsThreads - 1) / kPartsThreads, kMaxBlocks);
  Launch(AddPartsKernel(), {static_cast<unsigned>(blocks)}, kPartsThreads, parameters, 0);
}

void ExactProducts::Launch(const void* kernel, dim3 blocks, unsigned threads, void** parameters,
                           std::uint64_t shared_bytes) {
  if (IsPlanted(CudaBug::kTooFewThreads)) threads /= 2;
  const cudaError_t error =
      cudaLaunchKernel(kernel, blocks, {threads}, parameters, shared_bytes, stream_);
  if (error != cudaSuccess) Check(error, "launching gemm", name_);
}

}  // namespace acan::cuda
