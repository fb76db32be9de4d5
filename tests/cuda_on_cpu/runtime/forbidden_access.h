// What a program that is built with AddressSanitizer may not access.
#pragma once

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define ACAN_HAS_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ACAN_HAS_ADDRESS_SANITIZER
#endif
#endif

#if defined(ACAN_HAS_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace cuda_on_cpu {

// From now on, an access to one of these bytes ends the program with a report of the sanitizer.
// Without AddressSanitizer this does nothing.
inline void ForbidAccess([[maybe_unused]] std::uintptr_t begin,
                         [[maybe_unused]] std::uint64_t bytes) {
#if defined(ACAN_HAS_ADDRESS_SANITIZER)
  __asan_poison_memory_region(reinterpret_cast<void*>(begin), bytes);
#endif
}

}  // namespace cuda_on_cpu
