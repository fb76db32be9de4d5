// Which calls of attention run by tiles in shared memory, and how they are launched.
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
  // Lets the kernels have all shared memory of a block. Throws what Check throws.
  AttentionTiles(int ordinal, const std::string& name);

  // What computes a call, one after the other. None: another kernel, or heads that are too wide for
  // this GPU, or not of whole quads; the kernel of the table computes the same bits. rows: of the
  // region. head_width: the columns of a head.
  std::vector<TileLaunch> Find(Kernel kernel, std::int64_t rows, const KernelScalars& scalars,
                               std::int64_t head_width) const;

  static std::vector<const void*> Kernels();

 private:
  // None: it does not fit.
  std::vector<TileLaunch> LaunchesOf(Kernel kernel, AttentionShape shape, std::int64_t rows,
                                     const KernelScalars& scalars) const;

  std::size_t block_shared_bytes_;
};

}  // namespace acan::cuda
