// OpenCL devices as acan::Device: any driver with OpenCL 1.2, through the system's ICD loader. The
// module acan_opencl.so offers them to the program; tests link them directly.
//
// Kernels are compiled at run time from the sources that all backends share, with correctly rounded
// operations, denormals kept and no contraction, and cached in $XDG_CACHE_HOME/acan (~/.cache/acan)
// by device, driver and source, unless the driver keeps them itself, as PoCL does. Exact products
// have two shapes: tiles in local memory for GPUs, and explicit vectors over packed panels for
// CPUs. Sizes are chosen by a measurement that is cached too; they never change a bit.
//
// Memory. Buffers are charged to the budget by exactly their size; packing scratch (CPUs) once, at
// construction, at most 1/16 of the limit. Not charged: programs, and what Download copies to the
// host. Buffers may outlive the device and be released on any thread; Upload may be called by any
// thread.
//
// Errors name the call, OpenCL's name of the error and the device: OutOfMemory for memory,
// DeviceLost when the device or its queue are gone, std::runtime_error otherwise (with the
// compiler's log when a kernel does not compile).
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
  // For tests; users get what suits the device.
  std::optional<GemmKind> gemm;
  bool soft_divide = false;               // as if the device did not round divisions correctly
  bool cache_programs = false;            // also those of a driver that keeps them itself
  std::optional<std::string> broken;      // a line of OpenCL C at the beginning of every program
  std::optional<std::size_t> tile_shape;  // of kTile, below TileShapes()
  std::optional<std::size_t> most_group_size;     // as if the device had no more work-items a group
  std::optional<std::uint64_t> most_local_bytes;  // and no more local memory
  // As if each kernel needed so many registers that its groups could not have more work-items.
  std::optional<std::size_t> most_kernel_group_size;
};

// How many sizes of tiles there are to choose from.
std::size_t TileShapes();

// Both as DeviceModule says; Make throws Error for what is not there.
DeviceList ListDevices();
std::unique_ptr<Device> MakeDevice(const DeviceOptions& options);

}  // namespace acan::opencl
