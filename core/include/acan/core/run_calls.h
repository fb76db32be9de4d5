// Runs the calls of a task, one after the other, on a device. On the device's thread.
#pragma once

#include <vector>

#include "acan/core/task.h"

namespace acan {

// The operand that a view is, of the buffers of its task. REQUIRES: `buffers` has them all.
Matrix MatrixOf(const Task& task, const std::vector<BufferPtr>& buffers, const View& view);

// Starts all calls in order. `buffers` are the task's, each of its shape or longer. Throws what
// Device::Gemm and Device::Launch throw.
void RunCalls(Device& device, const Task& task, const std::vector<BufferPtr>& buffers);

}  // namespace acan
