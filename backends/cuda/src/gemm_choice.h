// Which kernel computes an exact product. Pure functions: they decide speed, never bits.
#pragma once

#include <cstdint>

#include "acan/cuda/cuda_devices.h"
#include "kernel_args.h"

namespace acan::cuda {

int EdgeOf(GemmTile tile);
// kAny if a quad of four words would not be aligned; see gemm_quads.h.
GemmLayout LayoutOf(const Product& product);
// The size of tiles that is expected to be fastest.
GemmTile ChooseTile(std::int64_t m, std::int64_t n, int multiprocessors);
// `tile`, or the smallest one if only that has levels enough for `leaves`.
GemmTile WithLevelsFor(GemmTile tile, std::int64_t leaves);

}  // namespace acan::cuda
