// Cuts work into parts for the threads of a device. No cut changes a bit.
#pragma once

#include <cstdint>

#include "acan/kernels/launch_check.h"
#include "isa/isa.h"

namespace acan::cpu {

// A product is cut into rows x cols parts. Each is a part of c over all of k.
struct Grid {
  int rows = 1;
  int cols = 1;
};

// Cuts into at most `threads` parts, fewer if a part would be too little work for a thread.
Grid CutProduct(const GemmProblem& problem, int threads);
GemmProblem PartOf(const GemmProblem& problem, const Grid& grid, int part);

// The same for a kernel's iteration space.
Grid CutLaunch(const KernelRegion& region, int threads);
Region PartOf(const KernelRegion& region, const Grid& grid, int part);

}  // namespace acan::cpu
