// Counters of acan's CUDA kernels that the driver knows before a run.
#pragma once

#include <cstdint>
#include <string_view>

#include "acan/core/operators/operators.h"
#include "acan/cuda/cuda_devices.h"
#include "gpu_expectations.h"
#include "products/gemm_choice.h"

namespace acan::cuda {

// "blocks": those that a multiprocessor holds at once, relative to those that the source asks for.
// "local_memory": what a thread should have, relative to what it has; less than 1 means spilled
// registers. "waves": see ShareOfWaves. For an exact product with aligned operands and the default
// way.
bench::Counters CountersOfProduct(GemmForm form, const Product& product, const GemmGpu& gpu);

// "warps": those of a launch for each multiprocessor, relative to the 16 that hide the latency of
// memory. `kernel` has the iteration space [rows, cols].
bench::Counters CountersOfKernel(std::string_view kernel, std::int64_t rows, std::int64_t cols,
                                 int multiprocessors);

}  // namespace acan::cuda
