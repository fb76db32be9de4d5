// The local memory of kernels: what their threads keep outside of registers. For each thread that
// the device can hold at once, the driver reserves as much as the largest kernel that has run
// needs. To enlarge this memory, it waits for the whole device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace acan::cuda {

// The most local memory that a thread of one of the kernels needs, on the calling thread's current
// device. Afterwards that device holds the code of all the kernels, which the driver may load only
// when a kernel is first used. Throws what Check throws.
std::uint64_t MostLocalBytes(const std::vector<const void*>& kernels, const std::string& name);

// Makes the local memory of the thread's current device, `ordinal`, large enough for threads that
// need this much, so that no launch has to enlarge it. Returns how many bytes of the device they
// take. Throws what Check throws.
std::uint64_t ReserveLocalMemory(std::uint64_t bytes_of_a_thread, int ordinal,
                                 const std::string& name);

}  // namespace acan::cuda
