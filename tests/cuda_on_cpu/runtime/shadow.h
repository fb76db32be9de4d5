// Who used each word last: races between threads of one launch, in the device's memory and in
// shared memory. REQUIRES: the state's mutex is held.
#pragma once

#include <cstdint>

namespace cuda_on_cpu {

// Who uses a word now. Intervals are between two barriers, and no two blocks or launches have the
// same; `first_interval` is the first one of the thread's block.
struct Now {
  std::uint32_t launch = 0, thread = 0;
  std::uint32_t interval = 0, first_interval = 0;
};

// Of the arena. Threads of one launch may not write what another one of it reads or writes, unless
// they are of one block and a barrier is between the two. Nonzero: this thread does.
std::uint32_t TouchGlobal(std::uintptr_t address, unsigned bytes, bool write, const Now& now);

// Of shared memory: the same between two barriers; and what is read was written in this block, that
// is, since `first_interval`. Null, or what is wrong.
const char* TouchShared(std::uintptr_t address, unsigned bytes, bool write, std::uint32_t interval,
                        std::uint32_t first_interval, std::uint32_t thread);
// A copy into such words is under way from now on, and until it ends: who else touches them races
// with it. As TouchShared.
const char* BeginCopyIntoShared(std::uintptr_t address, unsigned bytes, std::uint32_t interval,
                                std::uint32_t first_interval, std::uint32_t thread);
const char* EndCopyIntoShared(std::uintptr_t address, unsigned bytes, std::uint32_t interval,
                              std::uint32_t first_interval, std::uint32_t thread);

}  // namespace cuda_on_cpu
