// How work is cut for the threads of a device. No cut changes a bit.
#pragma once

#include <cstdint>

#include "acan/kernels/launch_check.h"
#include "isa/isa.h"

namespace acan::cpu {

// Parts of a product: rows x cols of them, each a part of c over all of k.
struct Grid {
  int rows = 1;
  int cols = 1;
};

// At most `threads` parts, fewer where a part would be too little work for a thread.
Grid CutProduct(const GemmProblem& problem, int threads);
GemmProblem PartOf(const GemmProblem& problem, const Grid& grid, int part);

// The same for a kernel's iteration space.
Grid CutLaunch(const KernelRegion& region, int threads);
Region PartOf(const KernelRegion& region, const Grid& grid, int part);

}  // namespace acan::cpu
