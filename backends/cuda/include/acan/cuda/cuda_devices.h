// NVIDIA GPUs as acan::Device. The module acan_cuda.so offers them to the program; tests link them
// directly. docs/devices.md reports results on real GPUs.
//
// nvcc compiles the kernels for the architectures that the build names, without contraction,
// flushing of denormals, or approximate division. Exact products use tiles of several sizes, and
// small products are cut along k at nodes of the tree. On a GPU with the ring tiles, one launch
// computes the products of a gradient over groups of rows, and a few add them, if the workspace has
// room for all of them or for enough at a time. The product's shape and the GPU determine the
// choice, which never changes a bit. Fast products use cuBLAS, loaded at run time. If cuBLAS is
// missing, or the limit leaves it no workspace, fast products are the exact ones.
//
// Work. The device has four streams: computing, uploads, downloads, and fetches of completed
// results. An upload goes through pinned memory on the calling thread. Kernels wait for their
// inputs on the device and never block the host. A buffer that is released while kernels use it is
// reused only after those kernels.
//
// Memory. Buffers are charged to the budget by exactly their size. The workspace for cuBLAS, for
// products that are cut along k and for groups of rows (1/16 of the limit, 32 MiB at most, none if
// that is below 1 MiB) is charged at construction. Released buffers are cached as long as the
// cached and the used buffers together, as rounded by the driver, stay within the limit. The
// threads' local memory (partial sums of trees: up to 6.8 KB for each thread that the device can
// hold) is reserved at construction; the part of it for which the device has no room beside the
// limit is charged. The budget does not include: the driver's rounding of buffers in use; pinned
// host memory; the driver's memory for the context and the code; cuBLAS' own state. Buffers may
// outlive the device and be released on any thread.
//
// Errors name the call, the device, and CUDA's name and text of the error. They are OutOfMemory for
// memory, DeviceLost when the context is lost (CUDA's sticky errors: nothing works afterwards in
// this process), and std::runtime_error otherwise.
#pragma once

#include <memory>
#include <optional>

#include "acan/core/device.h"
#include "acan/module/module.h"

namespace acan::cuda {

// Tiles of exact products: squares with this edge. The ring tiles need compute capability 8.0; GPUs
// that have it use only them.
enum class GemmTile : std::uint8_t { k128, k64, k32, kRing128, kRing64, kRing32 };

struct DeviceOptions {
  int index = 0;
  std::uint64_t memory_limit_bytes = 0;
  FastMath fast_math = FastMath::kFp32;
  // The rest is for tests and measurements; by default, the device uses what suits the product. A
  // tile that the GPU lacks is refused with an Error.
  std::optional<GemmTile> tile;
  // Whether products that may be cut along k are cut, and groups of rows computed in one launch.
  std::optional<bool> cut_k;
  std::optional<std::size_t> upload_threads;  // threads that copy a large upload; at least 1
};

// Whether the usable device cuda:index supports this tile.
bool HasTile(int index, GemmTile tile);

// As DeviceModule::List and DeviceModule::Make.
DeviceList ListDevices();
std::unique_ptr<Device> MakeDevice(const DeviceOptions& options);

}  // namespace acan::cuda
