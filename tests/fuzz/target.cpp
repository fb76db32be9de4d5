#include "target.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define FUZZ_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FUZZ_ADDRESS_SANITIZER
#endif
#endif

namespace {

thread_local std::int64_t in_use_bytes = 0;
thread_local std::int64_t peak_in_use_bytes = 0;

void CountUse(std::size_t bytes) {
  in_use_bytes += static_cast<std::int64_t>(bytes);
  peak_in_use_bytes = std::max(peak_in_use_bytes, in_use_bytes);
}

}  // namespace

#ifdef FUZZ_ADDRESS_SANITIZER

// AddressSanitizer has its own operator new and delete, which must not be mixed with others, but it
// reports each block to hooks.
#include <sanitizer/allocator_interface.h>

namespace {

[[maybe_unused]] const int hooks = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t bytes) { CountUse(bytes); },
    [](const volatile void* memory) {
      in_use_bytes -= static_cast<std::int64_t>(
          __sanitizer_get_allocated_size(const_cast<const void*>(memory)));
    });

}  // namespace

#else

// Replaces operator new and delete for the whole program so that HeapWatch can count.
namespace {

void* Counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  CountUse(malloc_usable_size(memory));
  return memory;
}

void* AllocateAligned(std::size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  return Counted(
      std::aligned_alloc(unit, (std::max<std::size_t>(bytes, 1) + unit - 1) / unit * unit));
}

void Free(void* memory) {
  if (memory == nullptr) return;
  in_use_bytes -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

// The array and nothrow forms call these.
void* operator new(std::size_t bytes) {
  return Counted(std::malloc(std::max<std::size_t>(bytes, 1)));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return AllocateAligned(bytes, alignment);
}
void operator delete(void* memory) noexcept {
  Free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  Free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  Free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  Free(memory);
}

#endif

namespace acan::fuzz {

std::vector<Target>& Targets() {
  static std::vector<Target> targets;
  return targets;
}

HeapWatch::HeapWatch() : before_(in_use_bytes) {
  peak_in_use_bytes = in_use_bytes;
}

std::uint64_t HeapWatch::peak_bytes() const {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(peak_in_use_bytes - before_, 0));
}

}  // namespace acan::fuzz
