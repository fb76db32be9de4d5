// Runs the calls of a task on a device, one after the other. On the device's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "acan/core/task.h"
#include "tuplespace/payload.h"

namespace acan {

// The operand that `view` describes. REQUIRES: `buffers` has all buffers of the task.
Matrix MatrixOf(const Task& task, const std::vector<BufferPtr>& buffers, const View& view);

// How many bytes calls that run part by part may touch at once and still stay in a core's cache.
inline constexpr std::int64_t kNearBytes = 768 << 10;

// Starts all calls in order. `buffers` are the task's, each of its shape or longer. On a device
// whose memory is the host's, calls whose rows are independent run part by part: a part touches
// about `near_bytes` for each thread of the device, but has at least one sample. Throws what
// Device::Gemm and Device::Launch throw.
//
// Where it changes no bit, some consecutive calls go to the device as one:
// - a product and the kernel that follows it (Device::GemmThen);
// - a convolution and its gradients (Device::Convolve, ConvolveBack, ConvolveWeights);
// - products of the gradient form whose operands are consecutive groups of rows, together with the
//   additions of their results by the aligned tree (Device::GemmGroups). The results of the single
//   products are then not computed, so nothing else may read them.
void RunCalls(Device& device, const Task& task, const std::vector<BufferPtr>& buffers,
              std::int64_t near_bytes = kNearBytes);

// As RunCalls. Also returns the hash of each output that `hashed` selects by index, if the device
// exposes its bytes (Device::HostBytes) and a call writes them. Such an output is hashed as soon as
// it is computed, part by part if its calls run part by part, while its bytes are still in a cache.
// The other entries are nullopt. REQUIRES: `hashed` is empty or has one entry for each output.
std::vector<std::optional<tuplespace::PayloadHash>> RunCallsAndHash(
    Device& device, const Task& task, const std::vector<BufferPtr>& buffers,
    const std::vector<bool>& hashed, std::int64_t near_bytes = kNearBytes);

}  // namespace acan
