// How a kernel of the table is distributed over the device. A pure function: it decides speed,
// never bits.
#pragma once

#include <driver_types.h>
#include <vector_types.h>

#include <cstdint>

#include "acan/kernels/launch_check.h"

namespace acan::cuda {

struct Grid {
  dim3 blocks, threads;
};

// head_width: the columns of a head, for kernels over tiles. Throws std::invalid_argument if the
// region takes more blocks than CUDA launches at once.
Grid GridOf(Kernel kernel, const KernelRegion& region, const KernelScalars& scalars,
            std::int64_t head_width = 64);

}  // namespace acan::cuda
