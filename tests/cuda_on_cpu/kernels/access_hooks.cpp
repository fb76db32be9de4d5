// The hooks that the compiler calls before each memory access in code compiled for the thread
// sanitizer. That sanitizer is not linked; these hooks pass the accesses to blocks.cpp. This file
// itself is compiled without the sanitizer's option.
#include <cstddef>
#include <cstdint>

#include "blocks.h"
#include "fibers.h"

namespace {

void Access(void* at, unsigned bytes, bool write) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  if (!cuda_on_cpu::OnAStack(address)) cuda_on_cpu::Touch(address, bytes, write);
}
// Reports bytes one by one, so that any alignment is fine.
void Bytes(void* at, std::size_t bytes, bool write) {
  for (std::size_t i = 0; i < bytes; ++i) Access(static_cast<char*>(at) + i, 1, write);
}

}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define ACAN_HOOKS(bytes)                       \
  void __tsan_read##bytes(void* at) {           \
    Access(at, bytes, false);                   \
  }                                             \
  void __tsan_write##bytes(void* at) {          \
    Access(at, bytes, true);                    \
  }                                             \
  void __tsan_volatile_read##bytes(void* at) {  \
    Access(at, bytes, false);                   \
  }                                             \
  void __tsan_volatile_write##bytes(void* at) { \
    Access(at, bytes, true);                    \
  }
ACAN_HOOKS(1)
ACAN_HOOKS(2)
ACAN_HOOKS(4)
ACAN_HOOKS(8)
ACAN_HOOKS(16)
#undef ACAN_HOOKS

#define ACAN_HOOKS(bytes)                        \
  void __tsan_unaligned_read##bytes(void* at) {  \
    Bytes(at, bytes, false);                     \
  }                                              \
  void __tsan_unaligned_write##bytes(void* at) { \
    Bytes(at, bytes, true);                      \
  }
ACAN_HOOKS(2)
ACAN_HOOKS(4)
ACAN_HOOKS(8)
ACAN_HOOKS(16)
#undef ACAN_HOOKS

void __tsan_read_range(void* at, std::size_t bytes) {
  Bytes(at, bytes, false);
}
void __tsan_write_range(void* at, std::size_t bytes) {
  Bytes(at, bytes, true);
}

}  // extern "C"
