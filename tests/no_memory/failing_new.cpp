// Replaces operator new and delete for the whole program.
#include "failing_new.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local bool fails = false;

void* Checked(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The array and nothrow forms call these.
void* operator new(std::size_t bytes) {
  return Checked(fails ? nullptr : std::malloc(std::max<std::size_t>(bytes, 1)));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + unit - 1) / unit * unit;
  return Checked(fails ? nullptr : std::aligned_alloc(unit, rounded));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace acan::testing {

FailingNew::FailingNew() {
  fails = true;
}

FailingNew::~FailingNew() {
  fails = false;
}

}  // namespace acan::testing
