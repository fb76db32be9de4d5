// Runs the calls of a task, one after the other, on a device. On the device's thread.
#pragma once

#include <vector>

#include "acan/core/task.h"

namespace acan {

// The operand that a view is, of the buffers of its task. REQUIRES: `buffers` has them all.
Matrix MatrixOf(const Task& task, const std::vector<BufferPtr>& buffers, const View& view);

// Starts all calls in order. `buffers` are the task's, each of its shape or longer. Throws what
// Device::Gemm and Device::Launch throw.
//
// Some calls that follow each other are given to the device as one, where that changes no bit:
// - a product and the kernel behind it (Device::GemmThen);
// - a convolution and its gradient (Device::Convolve, ConvolveBack);
// - products of the gradient form whose operands are groups of rows that follow each other, and the
//   additions of their results by the aligned tree (Device::GemmGroups). The results of products
//   are then not made, so nothing else may read them.
void RunCalls(Device& device, const Task& task, const std::vector<BufferPtr>& buffers);

}  // namespace acan
