// The local memory of kernels: what their threads keep outside of registers. The driver takes as
// much of the device for each thread that the device can hold at once as the largest kernel that
// ran needs, and it waits for the whole device to make it larger.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace acan::cuda {

// Makes the local memory of the thread's current device, `ordinal`, large enough for any of the
// kernels, so that no launch has to. Returns how many bytes of the device the kernels take. Throws
// what Check does.
std::uint64_t ReserveLocalMemory(const std::vector<const void*>& kernels, int ordinal,
                                 const std::string& name);

}  // namespace acan::cuda
