// Random operands of measured products.
#pragma once

#include <cstdint>

#include "acan/core/device.h"

namespace acan::bench {

struct Operand {
  BufferPtr buffer;
  Matrix matrix;
};

// Row by row, uniform in [-1, 1); different for each `tensor`.
inline Operand RandomMatrix(Device& device, std::int64_t rows, std::int64_t cols,
                            std::int64_t tensor) {
  Operand out;
  out.buffer = device.Allocate(static_cast<std::uint64_t>(rows * cols) * 4);
  out.matrix = {out.buffer.get(), 0, rows, cols, cols};
  KernelArgs args;
  args.m[0] = out.matrix;
  args.scalars.f = {-1.0f, 1.0f};
  args.scalars.i = {1, tensor, 0, 0, cols};
  device.Launch(Kernel::kUniform, args);
  return out;
}

}  // namespace acan::bench
