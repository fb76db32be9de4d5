// Random programs over acan::Device on fake GPUs, checked against plain arrays.
#pragma once

#include <cstdint>
#include <string>

namespace cuda_on_cpu {

// Draws GPUs, their order of work, limits, faults and a few dozen calls, and runs them. The same
// seed always gives the same history. Returns a description of what was wrong; empty: nothing.
std::string RunProgram(std::uint64_t seed);

}  // namespace cuda_on_cpu
