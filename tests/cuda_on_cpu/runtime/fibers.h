// Stacks for the threads of a block. Only one host thread may use them at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_on_cpu {

inline constexpr unsigned kMaxFibers = 1024;

inline constexpr std::size_t kStackBytes = 256 << 10;
inline std::uintptr_t first_stack = 0;  // the stacks are contiguous; 0 before the first use

// True for most accesses of kernels, so this check comes first.
inline bool OnAStack(std::uintptr_t address) {
  return address - first_stack < kMaxFibers * kStackBytes;
}

// Runs fiber `index` until it leaves. A fiber calls entry(index) repeatedly, and leaves by itself
// after each call. REQUIRES: not called on a fiber.
void RunFiber(unsigned index, void (*entry)(unsigned));
// Returns to the caller of RunFiber from within entry().
void LeaveFiber();
// Abandons a fiber that left within entry(). It starts anew the next time.
void ForgetFiber(unsigned index);

}  // namespace cuda_on_cpu
