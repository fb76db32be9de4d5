// Stacks for the threads of a block. One thread of the host at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_on_cpu {

inline constexpr unsigned kMostFibers = 1024;

inline constexpr std::size_t kStackBytes = 256 << 10;
inline std::uintptr_t first_stack = 0;  // their stacks lie one after the other; 0 before the first

// Most of what kernels touch is on a stack, so that each access is asked this.
inline bool OnAStack(std::uintptr_t address) {
  return address - first_stack < kMostFibers * kStackBytes;
}

// Runs fiber `index` until it leaves: it begins with entry(index), again and again, and leaves by
// itself behind each. REQUIRES: called by no fiber.
void RunFiber(unsigned index, void (*entry)(unsigned));
// Back to who called RunFiber, in the middle of entry().
void LeaveFiber();
// A fiber that is in the middle will not go on: it begins anew the next time.
void ForgetFiber(unsigned index);

}  // namespace cuda_on_cpu
