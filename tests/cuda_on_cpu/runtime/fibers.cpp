#include "fibers.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#include <array>
#include <cstdio>
#include <cstdlib>

namespace cuda_on_cpu {
namespace {

constexpr std::size_t kGuardBytes = 16 << 10;

// Where a stack continues.
struct Continuation {
  ucontext_t context{};
  jmp_buf jump{};
  bool jumps = false;     // otherwise `context` applies
  void* known = nullptr;  // to the thread sanitizer, as a thread of its own
};

#if defined(__SANITIZE_THREAD__)
void BeginStack(Continuation& stack) {
  if (stack.known != nullptr) __tsan_destroy_fiber(stack.known);
  stack.known = __tsan_create_fiber(0);
}
void NoteThisStack(Continuation& stack) {
  stack.known = __tsan_get_current_fiber();
}
void AnnounceSwitch(const Continuation& to) {
  __tsan_switch_to_fiber(to.known, 0);
}
#else
void BeginStack(Continuation&) {}
void NoteThisStack(Continuation&) {}
void AnnounceSwitch(const Continuation&) {}
#endif

// Switching contexts also sets the signal mask, a system call each time, so this uses contexts only
// to enter a stack for the first time. Sanitizers understand nothing but contexts.
void Switch(Continuation& from, Continuation& to) {
#if !defined(ACAN_FIBERS_ARE_CONTEXTS)
  from.jumps = true;
  if (::_setjmp(from.jump) != 0) return;
  if (to.jumps) ::_longjmp(to.jump, 1);
#endif
  AnnounceSwitch(to);
  ::swapcontext(&from.context, &to.context);
}

struct Fiber {
  Continuation at;
  bool begun = false;
  unsigned index = 0;
  void (*entry)(unsigned) = nullptr;
};

std::array<Fiber, kMaxFibers> fibers;
Continuation caller;
unsigned current = 0;

std::byte* Stacks() {
  static std::byte* const stacks = [] {
    void* const memory = ::mmap(nullptr, kMaxFibers * kStackBytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      std::fprintf(stderr, "fake GPU: no memory for the stacks of a block's threads\n");
      std::abort();
    }
    auto* const first = static_cast<std::byte*>(memory);
    for (unsigned i = 0; i < kMaxFibers; ++i) {
      ::mprotect(first + i * kStackBytes, kGuardBytes, PROT_NONE);
    }
    first_stack = reinterpret_cast<std::uintptr_t>(first);
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

void RunFiber(unsigned index, void (*entry)(unsigned)) {
  Fiber& fiber = fibers[index];
  current = index;
  fiber.entry = entry;
  if (!fiber.begun) {
    fiber.begun = true;
    fiber.index = index;
    fiber.at.jumps = false;
    BeginStack(fiber.at);
    ucontext_t& context = fiber.at.context;
    ::getcontext(&context);
    context.uc_stack.ss_sp = Stacks() + index * kStackBytes;
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    ::makecontext(&context, &Main, 0);
  }
  NoteThisStack(caller);
  Switch(caller, fiber.at);
}

void LeaveFiber() {
  Switch(fibers[current].at, caller);
}

void ForgetFiber(unsigned index) {
  fibers[index].begun = false;
}

}  // namespace cuda_on_cpu
