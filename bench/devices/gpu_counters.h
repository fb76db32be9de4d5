// Counters of acan's CUDA kernels that the driver knows before they run.
#pragma once

#include <cstdint>
#include <string_view>

#include "acan/core/operators/operators.h"
#include "acan/cuda/cuda_devices.h"
#include "gpu_expectations.h"
#include "products/gemm_choice.h"

namespace acan::cuda {

// "blocks": that a multiprocessor holds at once, of those that the source asks for. "local_memory":
// what a thread should have, of what it has; less than 1 is registers that were spilled. "waves":
// see ShareOfWaves. Of an exact product with aligned operands, as it is computed without a wish.
bench::Counters CountersOfProduct(GemmForm form, const Product& product, const GemmGpu& gpu);

// "warps": those of a launch for each multiprocessor, of the 16 that hide the latency of memory.
// `kernel` has the iteration space [rows, cols].
bench::Counters CountersOfKernel(std::string_view kernel, std::int64_t rows, std::int64_t cols,
                                 int multiprocessors);

}  // namespace acan::cuda
