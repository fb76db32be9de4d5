// Runs the calls of a task, one after the other, on a device. On the device's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "acan/core/task.h"
#include "tuplespace/payload.h"

namespace acan {

// The operand that a view is, of the buffers of its task. REQUIRES: `buffers` has them all.
Matrix MatrixOf(const Task& task, const std::vector<BufferPtr>& buffers, const View& view);

// What calls that run part by part touch at once: about so many bytes stay near a core.
inline constexpr std::int64_t kNearBytes = 768 << 10;

// Starts all calls in order. `buffers` are the task's, each of its shape or longer. On a device
// whose memory is the host's, calls whose rows do not depend on each other run part by part: a part
// touches `near_bytes` for each thread of the device, but at least one sample. Throws what
// Device::Gemm and Device::Launch throw.
//
// Some calls that follow each other are given to the device as one, where that changes no bit:
// - a product and the kernel behind it (Device::GemmThen);
// - a convolution and its gradients (Device::Convolve, ConvolveBack, ConvolveWeights);
// - products of the gradient form whose operands are groups of rows that follow each other, and the
//   additions of their results by the aligned tree (Device::GemmGroups). The results of products
//   are then not made, so nothing else may read them.
void RunCalls(Device& device, const Task& task, const std::vector<BufferPtr>& buffers,
              std::int64_t near_bytes = kNearBytes);

// As RunCalls, and returns the hash of each output that `hashed` names, by its index, if the device
// shows its bytes (Device::HostBytes) and a call writes them: then they are hashed as soon as they
// are made, part by part where the calls run so, and come from a cache. The others have none.
// REQUIRES: `hashed` is empty, or has as many as the task has outputs.
std::vector<std::optional<tuplespace::PayloadHash>> RunCallsAndHash(
    Device& device, const Task& task, const std::vector<BufferPtr>& buffers,
    const std::vector<bool>& hashed, std::int64_t near_bytes = kNearBytes);

}  // namespace acan
