// How a kernel of the table is spread over the device. A pure function: it decides speed, never
// bits.
#pragma once

#include <driver_types.h>
#include <vector_types.h>

#include "acan/kernels/launch_check.h"

namespace acan::cuda {

struct Grid {
  dim3 blocks, threads;
};

Grid GridOf(Kernel kernel, const KernelRegion& region, const KernelScalars& scalars);

}  // namespace acan::cuda
