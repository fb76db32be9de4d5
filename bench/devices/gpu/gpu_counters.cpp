#include "gpu_counters.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "check.h"
#include "kernel_args.h"
#include "launch_grid.h"

namespace acan::cuda {
namespace {

// The layout of a product whose operands are aligned.
GemmLayout AlignedLayoutOf(GemmForm form) {
  switch (form) {
    case GemmForm::kForward:
      return GemmLayout::kRowRow;
    case GemmForm::kBackward:
      return GemmLayout::kRowK;
    case GemmForm::kGradient:
      break;
  }
  return GemmLayout::kKK;
}

struct KernelFacts {
  const void* kernel;
  int threads;  // of a block
  int blocks, local_bytes;
  std::size_t shared_bytes;
};
KernelFacts FactsOf(GemmTile tile, GemmLayout layout, const GemmGpu& gpu) {
  if (const RingDesign* const ring = DesignOf(tile)) {
    const void* const kernel = tile == GemmTile::kRing128  ? Ring128(layout)
                               : tile == GemmTile::kRing64 ? Ring64(layout)
                                                           : Ring32(layout);
    return {kernel, ring->threads, ring->blocks, ring->local_bytes(), SharedBytes(*ring, gpu)};
  }
  const void* const kernel = tile == GemmTile::k128  ? Gemm128(layout)
                             : tile == GemmTile::k64 ? Gemm64(layout)
                                                     : Gemm32(layout);
  const TileDesign design = tile == GemmTile::k128  ? kDesign128
                            : tile == GemmTile::k64 ? kDesign64
                                                    : kDesign32;
  return {kernel, 2 * ShapeOf(tile).rows, design.blocks, design.local_bytes, 0};
}

double Share(double value, double wanted) {
  return std::min(1.0, value / wanted);
}

}  // namespace

bench::Counters CountersOfProduct(GemmForm form, const Product& product, const GemmGpu& gpu) {
  const GemmPlan plan = PlanOf(product, gpu);
  const KernelFacts facts = FactsOf(plan.tile, AlignedLayoutOf(form), gpu);
  const TileShape shape = ShapeOf(plan.tile);
  cudaFuncAttributes attributes{};
  Check(cudaFuncGetAttributes(&attributes, facts.kernel), "cudaFuncGetAttributes", "cuda:0");
  int blocks = 0;
  Check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, facts.kernel, facts.threads,
                                                      facts.shared_bytes),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor", "cuda:0");
  const std::int64_t tiles = (product.m + shape.rows - 1) / shape.rows *
                             ((product.n + shape.cols - 1) / shape.cols) * plan.parts;
  const auto local_bytes = std::max<double>(facts.local_bytes, attributes.localSizeBytes);
  return {{"blocks", Share(blocks, facts.blocks)},
          {"local_memory", facts.local_bytes / local_bytes},
          {"waves", bench::ShareOfWaves(static_cast<double>(tiles), gpu.multiprocessors,
                                        std::max(blocks, 1))}};
}

bench::Counters CountersOfKernel(std::string_view kernel, std::int64_t rows, std::int64_t cols,
                                 int multiprocessors) {
  constexpr double kWarps = 16;
  constexpr std::int64_t kBlock = 64;
  for (std::size_t i = 0; i < kKernels; ++i) {
    if (kKernelRows[i]->name != kernel) continue;
    KernelScalars scalars;
    scalars.i.fill(kBlock);  // leaves, and groups of one leaf
    const Grid grid = GridOf(static_cast<Kernel>(i), {kKernelRows[i]->space, rows, cols}, scalars);
    const unsigned of_a_block = (grid.threads.x * grid.threads.y + 31) / 32;
    const double warps = static_cast<double>(grid.blocks.x) * grid.blocks.y * of_a_block;
    return {{"warps", Share(warps, kWarps * multiprocessors)}};
  }
  return {};
}

}  // namespace acan::cuda
