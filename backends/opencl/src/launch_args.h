// The arguments of a launch of a kernel of the table, as the kernels take them.
#pragma once

#include <array>
#include <cstddef>
#include <tuple>

#include "acan/core/device.h"
#include "driver/session.h"

namespace acan::opencl {

// The layout of acan_launch in launch.cl.
struct LaunchScalars {
  std::array<cl_long, kMaxKernelMatrices> offset, rows, cols, stride;
  std::array<cl_long, ACAN_KERNEL_INTEGERS> i;
  std::array<cl_float, ACAN_KERNEL_FLOATS> f;
  cl_long region_rows;
  cl_long region_cols;
};
static_assert(sizeof(LaunchScalars) ==
              (4 * ACAN_KERNEL_MATRICES + ACAN_KERNEL_INTEGERS + 2) * 8 + 4 * ACAN_KERNEL_FLOATS);

struct LaunchArgs {
  LaunchScalars scalars{};
  std::array<cl_mem, kMaxKernelMatrices> memory{};
};

// local_bytes: the local memory of each group. Kernels of CPUs take none.
inline void SetArgs(const Session& session, const ClKernel& kernel, const LaunchArgs& args,
                    std::size_t local_bytes) {
  std::apply([&](const auto&... memory) { session.SetArgs(kernel, args.scalars, memory...); },
             args.memory);
  if (session.candidate().cpu) return;
  session.SetLocal(kernel, args.memory.size() + 1, local_bytes);
}

}  // namespace acan::opencl
