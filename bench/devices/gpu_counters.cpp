#include "gpu_counters.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "check.h"
#include "gemm_choice.h"
#include "kernel_args.h"
#include "launch_grid.h"

namespace acan::cuda {
namespace {

// Of a product whose operands are aligned.
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

double Share(double value, double wanted) {
  return std::min(1.0, value / wanted);
}

}  // namespace

bench::Counters CountersOfProduct(GemmTile tile, GemmForm form, std::int64_t m, std::int64_t n,
                                  int multiprocessors) {
  const GemmLayout layout = AlignedLayoutOf(form);
  const void* const kernel = tile == GemmTile::k128  ? Gemm128(layout)
                             : tile == GemmTile::k64 ? Gemm64(layout)
                                                     : Gemm32(layout);
  const TileDesign design = tile == GemmTile::k128  ? kDesign128
                            : tile == GemmTile::k64 ? kDesign64
                                                    : kDesign32;
  const int edge = EdgeOf(tile);
  cudaFuncAttributes attributes{};
  Check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes", "cuda:0");
  int blocks = 0;
  Check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 2 * edge, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor", "cuda:0");
  const std::int64_t tiles = (m + edge - 1) / edge * ((n + edge - 1) / edge);
  const auto local_bytes = std::max<double>(design.local_bytes, attributes.localSizeBytes);
  return {{"blocks", Share(blocks, design.blocks)},
          {"local_memory", design.local_bytes / local_bytes},
          {"waves",
           bench::ShareOfWaves(static_cast<double>(tiles), multiprocessors, std::max(blocks, 1))}};
}

bench::Counters CountersOfKernel(std::string_view kernel, std::int64_t rows, std::int64_t cols,
                                 int multiprocessors) {
  constexpr double kWarps = 16;
  for (std::size_t i = 0; i < kKernels; ++i) {
    if (kKernelRows[i]->name != kernel) continue;
    const Grid grid = GridOf(static_cast<Kernel>(i), {kKernelRows[i]->space, rows, cols});
    const unsigned of_a_block = (grid.threads.x * grid.threads.y + 31) / 32;
    const double warps = static_cast<double>(grid.blocks.x) * grid.blocks.y * of_a_block;
    return {{"warps", Share(warps, kWarps * multiprocessors)}};
  }
  return {};
}

}  // namespace acan::cuda
