// Random programs over acan::Device on fake GPUs, against plain arrays.
#pragma once

#include <cstdint>
#include <string>

namespace cuda_on_cpu {

// Draws GPUs, their order of work, limits, faults and some dozens of calls; runs them. The same
// seed is the same history. Returns what was wrong, empty if nothing was.
std::string RunProgram(std::uint64_t seed);

}  // namespace cuda_on_cpu
