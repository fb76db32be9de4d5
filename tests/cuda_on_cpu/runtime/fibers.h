// Stacks for the threads of a block. One thread of the host at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_on_cpu {

inline constexpr unsigned kMostFibers = 1024;

// Where all their stacks lie.
bool OnAStack(std::uintptr_t address);

// Runs fiber `index` until it leaves: it begins with entry(index), again and again, and leaves by
// itself behind each. REQUIRES: called by no fiber.
void RunFiber(unsigned index, void (*entry)(unsigned));
// Back to who called RunFiber, in the middle of entry().
void LeaveFiber();
// A fiber that is in the middle will not go on: it begins anew the next time.
void ForgetFiber(unsigned index);

}  // namespace cuda_on_cpu
