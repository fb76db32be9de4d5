// Which calls of attention run as tiles in shared memory, and how they are launched.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "acan/core/operators/kernels.h"
#include "kernel_args.h"
#include "launch_grid.h"

namespace acan::cuda {

struct TileLaunch {
  AttentionTileKernel kernel;
  Grid grid;
};

class AttentionTiles {
 public:
  // Allows the kernels to use all shared memory of a block. Throws what Check throws.
  AttentionTiles(int ordinal, const std::string& name);

  // The launches that compute a call, in order. None for another kernel, for heads wider than
  // kMaxAttentionWidth or not a multiple of four columns wide, for more than MostAttentionRows, and
  // where a block has too little shared memory; then the kernel of the table computes the same
  // bits. rows: of the region. head_width: the columns of a head.
  std::vector<TileLaunch> Find(Kernel kernel, std::int64_t rows, const KernelScalars& scalars,
                               std::int64_t head_width) const;

  static std::vector<const void*> Kernels();

 private:
  // None if the shape does not fit.
  std::vector<TileLaunch> LaunchesOf(Kernel kernel, AttentionShape shape, std::int64_t rows,
                                     const KernelScalars& scalars) const;

  std::size_t block_shared_bytes_;
};

}  // namespace acan::cuda
