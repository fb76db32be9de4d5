#include "world/fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

namespace acan::simulation {
namespace {

constexpr std::size_t kStackBytes = 1u << 20;
constexpr std::size_t kGuardBytes = 1u << 14;

// Stacks are reused because mapping one costs more than most fibers do.
std::vector<void*>& FreeStacks() {
  static std::vector<void*> stacks;
  return stacks;
}

void* TakeStack() {
  std::vector<void*>& free_stacks = FreeStacks();
  if (!free_stacks.empty()) {
    void* stack = free_stacks.back();
    free_stacks.pop_back();
    return stack;
  }
  void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) throw std::bad_alloc();
  mprotect(stack, kGuardBytes, PROT_NONE);
  return stack;
}

// The C++ run-time library keeps the state of current exceptions per thread, although it belongs to
// a stack. The Itanium C++ ABI defines its layout.
struct ExceptionState {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

void SwapExceptionState(ExceptionState& other) {
  auto* state = reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
  std::swap(*state, other);
}

}  // namespace

struct Fiber::Impl {
  std::function<void()> body;
  void* stack = nullptr;
  ucontext_t own{};
  ucontext_t resumer{};
  Fiber::Impl* outer = nullptr;  // the fiber that resumed it
  ExceptionState exceptions;
  bool begun = false, done = false;

  static Impl* current;

  static void Main() {
    Impl* self = current;
    self->body();
    self->done = true;
    self->Leave();
    std::abort();  // a finished fiber was resumed
  }

  void Leave() {
    current = outer;
    SwapExceptionState(exceptions);
    swapcontext(&own, &resumer);
  }
};

Fiber::Impl* Fiber::Impl::current = nullptr;

Fiber::Fiber(std::function<void()> body) : impl_(std::make_unique<Impl>()) {
  impl_->body = std::move(body);
}

Fiber::~Fiber() {
  assert(!impl_->begun || impl_->done);
}

void Fiber::Resume() {
  assert(!impl_->done && impl_.get() != Impl::current);
  if (!impl_->begun) {
    impl_->begun = true;
    impl_->stack = TakeStack();
    getcontext(&impl_->own);
    impl_->own.uc_stack.ss_sp = impl_->stack;
    impl_->own.uc_stack.ss_size = kStackBytes;
    impl_->own.uc_link = nullptr;
    makecontext(&impl_->own, &Impl::Main, 0);
  }
  impl_->outer = std::exchange(Impl::current, impl_.get());
  SwapExceptionState(impl_->exceptions);
  swapcontext(&impl_->resumer, &impl_->own);
  if (impl_->done) FreeStacks().push_back(std::exchange(impl_->stack, nullptr));
}

bool Fiber::done() const {
  return impl_->done;
}

bool Fiber::begun() const {
  return impl_->begun;
}

void Fiber::Yield() {
  assert(Impl::current != nullptr);
  Impl::current->Leave();
}

}  // namespace acan::simulation
