// Who used each word last: races between threads of one launch, in the device's memory and in
// shared memory. REQUIRES: the state's mutex is held.
#pragma once

#include <cstdint>

namespace cuda_on_cpu {

// Of the arena. Threads of one launch may not write what another one of it reads or writes: acan's
// kernels pass nothing from thread to thread through the device's memory. Nonzero: this thread
// does.
std::uint32_t TouchGlobal(std::uintptr_t address, unsigned bytes, bool write, std::uint32_t launch,
                          std::uint32_t thread);

// Of shared memory: the same between two barriers; and what is read was written in this block, that
// is, since `first_interval`. Null, or what is wrong.
const char* TouchShared(std::uintptr_t address, unsigned bytes, bool write, std::uint32_t interval,
                        std::uint32_t first_interval, std::uint32_t thread);

}  // namespace cuda_on_cpu
