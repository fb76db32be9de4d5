// OpenCL devices as acan::Device, for any driver with OpenCL 1.2, through the system's ICD loader.
// The module acan_opencl.so offers them to the program; tests link them directly.
//
// The driver compiles the kernels at run time from the sources that all backends share, with
// correctly rounded operations, denormals and no contraction. Compiled programs are cached in
// $XDG_CACHE_HOME/acan (~/.cache/acan) by device, driver and source, unless the driver caches them
// itself, as PoCL does. Exact products have two shapes: tiles in local memory for GPUs, and
// explicit vectors over packed panels for CPUs. A measurement, whose result is also cached, chooses
// their sizes; the sizes never change a bit.
//
// Memory. Buffers are charged to the budget by exactly their size. Packing scratch (CPUs only) is
// charged once, at construction, and is at most 1/16 of the limit. The budget does not include
// programs and the host copies that Download makes. Buffers may outlive the device and be released
// on any thread. Any thread may call Upload.
//
// Errors name the call, OpenCL's name of the error and the device. They are OutOfMemory for memory
// and registers, DeviceLost when the device or its queue is lost, and std::runtime_error otherwise
// (with the compiler's log when a kernel does not compile). Drivers give the errors for a lack of
// memory also for a GPU that hangs: if it then runs not even a command that needs no memory, or if
// a wait failed, the exception is DeviceLost. A kernel or copy that fails after it was enqueued is
// reported by the next call that waits, at the latest: Download, CopyIn, Synchronize.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "acan/core/device.h"
#include "acan/module/module.h"

namespace acan::opencl {

// How exact products are computed.
enum class GemmKind : std::uint8_t { kTile, kVector };

struct DeviceOptions {
  int index = 0;
  std::optional<int> part;
  std::uint64_t memory_limit_bytes = 0;
  // The rest is for tests; by default, the device uses what suits it.
  std::optional<GemmKind> gemm;
  bool as_gpu = false;                         // all kernels as for a GPU, in groups of work-items
  bool soft_divide = false;                    // as if the device did not round divisions correctly
  bool cache_programs = false;                 // also cache programs that the driver caches itself
  std::optional<std::string> broken;           // a line of OpenCL C to begin every program with
  std::optional<std::size_t> tile_shape;       // of kTile; must be below TileShapes()
  std::optional<std::size_t> most_group_size;  // as if the device allowed no larger groups
  std::optional<std::uint64_t> most_local_bytes;  // as if the device had no more local memory
  // As if every kernel needed so many registers that its groups could not be larger than this.
  std::optional<std::size_t> most_kernel_group_size;
  // Work-items of each row that has a group, whatever its length: a power of two from 64 on. Groups
  // with chains have 64 anyway.
  std::optional<std::size_t> row_items;
  std::optional<std::uint64_t> most_allocation_bytes;  // as if no buffer could be larger
  std::optional<std::int64_t> fail_launch;  // the kernel launch (from 1 on) that fails as it runs
  // From that launch on, waits fail with CL_OUT_OF_RESOURCES, as on a GPU that hangs.
  bool fail_by_hanging = false;
};

// The number of tile sizes to choose from.
std::size_t TileShapes();

// As DeviceModule::List and DeviceModule::Make. MakeDevice throws Error for a device that does not
// exist.
DeviceList ListDevices();
std::unique_ptr<Device> MakeDevice(const DeviceOptions& options);

}  // namespace acan::opencl
