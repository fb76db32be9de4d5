// Shadow memory: remembers who used each word last, to find races between threads of one launch in
// the device's memory and in shared memory. REQUIRES: the state's mutex is held.
#pragma once

#include <cstdint>

namespace cuda_on_cpu {

// The thread that uses a word now. Intervals are between two barriers, and each block of each
// launch has its own. `first_interval` is the first one of the thread's block.
struct Now {
  std::uint32_t launch = 0, thread = 0;
  std::uint32_t interval = 0, first_interval = 0;
};

// Notes an access to the arena. A thread may not write a word that another thread of the launch
// reads or writes, unless both are of one block with a barrier between the accesses. Returns 0, or
// the other thread of such a race.
std::uint32_t TouchGlobal(std::uintptr_t address, unsigned bytes, bool write, const Now& now);

// Notes an access to shared memory. The same rule holds between two barriers. In addition, a word
// that is read must have been written in this block, that is, since `first_interval`. Returns null,
// or the problem.
const char* TouchShared(std::uintptr_t address, unsigned bytes, bool write, std::uint32_t interval,
                        std::uint32_t first_interval, std::uint32_t thread);
// Notes that a copy into these words starts, or ends. Any access in between is a race. Returns as
// TouchShared.
const char* BeginCopyIntoShared(std::uintptr_t address, unsigned bytes, std::uint32_t interval,
                                std::uint32_t first_interval, std::uint32_t thread);
const char* EndCopyIntoShared(std::uintptr_t address, unsigned bytes, std::uint32_t interval,
                              std::uint32_t first_interval, std::uint32_t thread);

}  // namespace cuda_on_cpu
