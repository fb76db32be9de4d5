// NVIDIA's GPUs as acan::Device. The module acan_cuda.so offers them to the program; tests link
// them directly. docs/devices.md says what was seen on a GPU.
//
// Kernels are compiled by nvcc for the architectures that the build names, without contraction,
// flushing or approximate divisions. Exact products have tiles of several sizes, and small ones are
// cut along k at nodes of the tree; what is taken depends on the product's shape and on the GPU and
// never changes a bit. Fast products are cuBLAS', loaded at run time; where it is missing, or the
// limit leaves it no workspace, fast products are the exact ones.
//
// Work. Four streams: computing, uploads, downloads, and fetches of what is complete. An upload
// goes through pinned memory on the calling thread, and kernels wait on the device, not on the
// host, for what they use. A buffer that is released while kernels use it is reused only behind
// them.
//
// Memory. Buffers are charged to the budget by exactly their size; the workspace of cuBLAS and of
// products that are cut along k (1/16 of the limit, 32 MiB at most, none if that is below 1 MiB) at
// construction. Released buffers are cached
// as long as they and what is in use, both as the driver rounds them, stay within the limit
// together. The threads' local memory (partial sums of trees: up to 6.8 KB for each thread that the
// device can hold) is reserved at construction. As much of it is charged as the device has no room
// for beside the limit. Not charged: what the driver rounds up in buffers that are in use; pinned
// host memory; what the driver takes for the context and the code; cuBLAS' own state. Buffers may
// outlive the device and be released on any thread.
//
// Errors name the call, the device and CUDA's name and words: OutOfMemory for memory, DeviceLost
// when the context is gone (CUDA's sticky errors: nothing works afterwards in this process),
// std::runtime_error otherwise.
#pragma once

#include <memory>
#include <optional>

#include "acan/core/device.h"
#include "acan/module/module.h"

namespace acan::cuda {

// Tiles of exact products: squares with this edge. Those of the ring are for GPUs of compute
// capability 8.0 and later, and only they are used there.
enum class GemmTile : std::uint8_t { k128, k64, k32, kRing128, kRing64, kRing32 };

struct DeviceOptions {
  int index = 0;
  std::uint64_t memory_limit_bytes = 0;
  FastMath fast_math = FastMath::kFp32;
  // For tests and measurements; users get what suits the product. A tile that the GPU lacks is
  // refused, as an Error.
  std::optional<GemmTile> tile;
  std::optional<bool> cut_k;                  // whether products are cut along k where they may be
  std::optional<std::size_t> upload_threads;  // that copy a large upload together; at least 1
};

// Whether cuda:index, which can be used, can have these tiles.
bool HasTile(int index, GemmTile tile);

// Both as DeviceModule says.
DeviceList ListDevices();
std::unique_ptr<Device> MakeDevice(const DeviceOptions& options);

}  // namespace acan::cuda
