#include "fibers.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace cuda_on_cpu {
namespace {

constexpr std::size_t kStackBytes = 256 << 10;
constexpr std::size_t kGuardBytes = 16 << 10;

struct Fiber {
  ucontext_t context{};
  bool begun = false;
  unsigned index = 0;
  void (*entry)(unsigned) = nullptr;
};

std::array<Fiber, kMostFibers> fibers;
ucontext_t caller;
unsigned current = 0;

std::byte* Stacks() {
  static std::byte* const stacks = [] {
    void* const memory = ::mmap(nullptr, kMostFibers * kStackBytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      std::fprintf(stderr, "fake GPU: no memory for the stacks of a block's threads\n");
      std::abort();
    }
    auto* const first = static_cast<std::byte*>(memory);
    for (unsigned i = 0; i < kMostFibers; ++i) {
      ::mprotect(first + i * kStackBytes, kGuardBytes, PROT_NONE);
    }
    return first;
  }();
  return stacks;
}

void Main() {
  for (;;) {
    Fiber& self = fibers[current];
    self.entry(self.index);
    LeaveFiber();
  }
}

}  // namespace

bool OnAStack(std::uintptr_t address) {
  static const auto begin = reinterpret_cast<std::uintptr_t>(Stacks());
  return address - begin < kMostFibers * kStackBytes;
}

void RunFiber(unsigned index, void (*entry)(unsigned)) {
  Fiber& fiber = fibers[index];
  current = index;
  fiber.entry = entry;
  if (!fiber.begun) {
    fiber.begun = true;
    fiber.index = index;
    ::getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = Stacks() + index * kStackBytes;
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    ::makecontext(&fiber.context, &Main, 0);
  }
  ::swapcontext(&caller, &fiber.context);
}

void LeaveFiber() {
  ::swapcontext(&fibers[current].context, &caller);
}

void ForgetFiber(unsigned index) {
  fibers[index].begun = false;
}

}  // namespace cuda_on_cpu
