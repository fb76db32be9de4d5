// The local memory of kernels: what their threads keep outside of registers. For each thread that
// the device can hold at once, the driver reserves as much as the largest kernel that has run
// needs. To enlarge this memory, it waits for the whole device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace acan::cuda {

// Makes the local memory of the thread's current device, `ordinal`, large enough for all of the
// kernels, so that no launch has to enlarge it. Returns how many bytes of the device the kernels
// take. Throws what Check throws.
std::uint64_t ReserveLocalMemory(const std::vector<const void*>& kernels, int ordinal,
                                 const std::string& name);

}  // namespace acan::cuda
