#include "blocks.h"

#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <vector>

#include "acan/cuda/planted.h"
#include "device_functions.h"
#include "fibers.h"
#include "kernel_registry.h"
#include "memory.h"
#include "shadow.h"
#include "state.h"

namespace cuda_on_cpu {
namespace {

using acan::cuda::CudaBug;
using tuplespace::IsPlanted;

enum class ThreadState : std::uint8_t { kNew, kAtBarrier, kDone };

// An unfinished copy into shared memory.
struct AsyncCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  unsigned bytes = 0;
  unsigned group = 0;
};

struct Place {
  uint3 thread{}, block{};
  unsigned fiber = 0;
  unsigned barriers = 0;  // that it has reached
  ThreadState state = ThreadState::kNew;
  std::vector<AsyncCopy> copies;  // the oldest first
  unsigned groups = 0;            // that it has ended
};

// Dynamic shared memory of the running block.
constexpr std::size_t kMaxSharedBytes = 256 << 10;
alignas(16) std::byte dynamic_shared[kMaxSharedBytes];

// The loaded segments of this program or module. They hold the kernels' variables in shared memory,
// and constants.
struct Image {
  struct Part {
    std::uintptr_t begin = 0, end = 0;
    bool Has(std::uintptr_t address) const { return address - begin < end - begin; }
  };
  Part variables;
  std::vector<Part> constants;  // and code
};

// The running launch.
struct Running {
  const Launch* launch = nullptr;
  Arena arena;
  Image::Part variables;
  std::vector<Place> threads;  // of the running block
  std::vector<unsigned> free_fibers;
  unsigned current = 0;  // thread
  // The order of threads in this interval, and the position of the next one.
  unsigned first = 0, position = 0;
  bool backwards = false;
  std::uint64_t block_number = 0;
  std::uint32_t tag = 0;             // of the current thread in the launch; begins at 1
  std::uint32_t number = 0;          // of the launch
  std::uint32_t interval = 0;        // between two barriers; numbers never repeat
  std::uint32_t first_interval = 0;  // of the block
  bool broken = false;
  // The pieces that threads used most recently.
  std::array<Piece, 8> used;
  unsigned next_used = 0;
} running;

int AddImage(dl_phdr_info* info, std::size_t, void* data) {
  Image found;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    const Image::Part part{begin, begin + header.p_memsz};
    if ((header.p_flags & PF_W) == 0) {
      found.constants.push_back(part);
    } else if (part.Has(reinterpret_cast<std::uintptr_t>(&running))) {
      found.variables = part;
    }
  }
  if (found.variables.begin == 0) return 0;
  *static_cast<Image*>(data) = found;
  return 1;
}

const Image& TheImage() {
  static const Image image = [] {
    Image found;
    ::dl_iterate_phdr(&AddImage, &found);
    return found;
  }();
  return image;
}

std::map<const void*, KernelInfo>& Kernels() {
  static auto& kernels = *new std::map<const void*, KernelInfo>;
  return kernels;
}

std::string CurrentThread() {
  const Place& at = running.threads[running.current];
  return fmt::format("{}, block ({}, {}), thread ({}, {})", running.launch->kernel->name,
                     at.block.x, at.block.y, at.thread.x, at.thread.y);
}

// Reports an error of a thread and abandons the launch. Does not return.
[[noreturn]] void Break(const std::string& what, cudaError_t error) {
  Find(fmt::format("{}: {}", CurrentThread(), what));
  running.broken = true;
  Lose(running.launch->device, error);
  LeaveFiber();
  std::abort();  // reached only if a forgotten fiber continues
}

// The thread at this position of the interval's order.
unsigned ThreadAt(unsigned position) {
  const auto count = static_cast<unsigned>(running.threads.size());
  return (running.first + (running.backwards ? count - position : position)) % count;
}

void BeginThread(unsigned index, unsigned fiber) {
  running.current = index;
  running.threads[index].fiber = fiber;
  running.tag =
      static_cast<std::uint32_t>(running.block_number * running.threads.size() + index + 1);
}

// Threads that reach no barrier run one after the other on one fiber, because switching fibers
// costs more than most threads do.
void ThreadMain(unsigned fiber) {
  const Launch& launch = *running.launch;
  for (;;) {
    launch.parameters.call(launch.kernel->function, launch.parameters.copies);
    if (!running.threads[running.current].copies.empty()) {
      Break("ends before its copies into shared memory do", cudaErrorLaunchFailure);
    }
    running.threads[running.current].state = ThreadState::kDone;
    if (running.position == running.threads.size()) return;
    const unsigned next = ThreadAt(running.position);
    if (running.threads[next].state != ThreadState::kNew) return;
    ++running.position;
    BeginThread(next, fiber);
  }
}

// Runs the thread, and others that follow on its fiber, until all are done or one is at a barrier.
// Returns false if the launch is broken.
bool RunThreads(unsigned index) {
  unsigned fiber = running.threads[index].fiber;
  if (running.threads[index].state == ThreadState::kNew) {
    fiber = running.free_fibers.back();
    running.free_fibers.pop_back();
  }
  BeginThread(index, fiber);
  RunFiber(fiber, &ThreadMain);
  if (running.broken) return false;
  if (running.threads[running.current].state == ThreadState::kDone) {
    running.free_fibers.push_back(fiber);
  }
  return true;
}

// Each interval runs the threads in another order. A result that depends on the order then has
// other bits, even if the shadow memory misses the race.
bool RunBlock() {
  const auto count = static_cast<unsigned>(running.threads.size());
  running.first_interval = running.interval + 1;
  for (;;) {
    ++running.interval;
    running.first = static_cast<unsigned>(TheState().Draw(count));
    running.backwards = TheState().Draw(2) == 0;
    for (running.position = 0; running.position < count;) {
      if (!RunThreads(ThreadAt(running.position++))) return false;
    }
    const auto done =
        std::count_if(running.threads.begin(), running.threads.end(),
                      [](const Place& each) { return each.state == ThreadState::kDone; });
    if (done == static_cast<std::ptrdiff_t>(count)) return true;
    if (done > 0) {
      Find(fmt::format("{}: {} of {} threads wait at a barrier, the others have ended",
                       CurrentThread(), count - done, count));
      Lose(running.launch->device, cudaErrorLaunchTimeout);
      return false;
    }
  }
}

void BeginBlock(const Launch& launch, std::uint64_t number) {
  const dim3& size = launch.block;
  for (unsigned i = 0; i < running.threads.size(); ++i) {
    Place& at = running.threads[i];
    at.state = ThreadState::kNew;
    at.barriers = 0;
    at.copies.clear();
    at.groups = 0;
    at.thread = {i % size.x, i / size.x % size.y, i / size.x / size.y};
    at.block = {static_cast<unsigned>(number % launch.grid.x),
                static_cast<unsigned>(number / launch.grid.x % launch.grid.y),
                static_cast<unsigned>(number / launch.grid.x / launch.grid.y)};
  }
}

}  // namespace

void AddKernel(const void* function, KernelInfo info) {
  Kernels()[function] = std::move(info);
}

const KernelInfo* FindKernel(const void* function) {
  const auto found = Kernels().find(function);
  return found == Kernels().end() ? nullptr : &found->second;
}

void* NewCopies(std::size_t bytes) {
  return ::operator new(bytes);
}
void DeleteCopies(void* copies) {
  ::operator delete(copies);
}

void RunGrid(const Launch& launch) {
  TheState().kernels_that_ran.insert(launch.kernel->name);
  running.launch = &launch;
  running.arena = TheArena();
  running.variables = TheImage().variables;
  running.broken = false;
  ++running.number;
  running.used.fill({});
  running.threads.assign(std::size_t{launch.block.x} * launch.block.y * launch.block.z, {});
  running.free_fibers.resize(kMaxFibers);
  std::iota(running.free_fibers.rbegin(), running.free_fibers.rend(), 0u);
  const std::uint64_t blocks = std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  const std::uint64_t first = TheState().Draw(blocks);
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t number = (first + i) % blocks;
    running.block_number = number;
    BeginBlock(launch, number);
    if (RunBlock()) continue;
    for (const Place& each : running.threads) ForgetFiber(each.fiber);
    break;
  }
  running.launch = nullptr;
}

// ---- called by threads of kernels --------------------------------------------------------------

uint3 ThreadIndex() {
  return running.threads[running.current].thread;
}
uint3 BlockIndex() {
  return running.threads[running.current].block;
}
dim3 BlockSize() {
  return running.launch->block;
}
dim3 GridSize() {
  return running.launch->grid;
}

void Barrier() {
  Place& thread = running.threads[running.current];
  const bool first = thread.barriers++ == 0;
  const bool half = running.current % 2 == 0;
  if ((IsPlanted(CudaBug::kNoBarrierBeforeTheFirstStep) && first) ||
      (IsPlanted(CudaBug::kNoBarrierBetweenSteps) && !first) ||
      (IsPlanted(CudaBug::kHalfTheThreadsSkipABarrier) && first && half)) {
    return;
  }
  running.threads[running.current].state = ThreadState::kAtBarrier;
  LeaveFiber();
}

namespace {

bool UsedBefore(std::uintptr_t address, unsigned bytes) {
  for (const Piece& piece : running.used) {
    if (address - piece.begin < piece.bytes && address + bytes <= piece.begin + piece.bytes) {
      return true;
    }
  }
  return false;
}

// Not inlined, so that the checks of each access do not need stack space for the message.
[[noreturn, gnu::noinline]] void BreakAt(std::uintptr_t address, unsigned bytes, bool write,
                                         const char* problem, cudaError_t error) {
  Break(fmt::format("{} {} bytes at {}{}", write ? "writes" : "reads", bytes, Describe(address),
                    problem),
        error);
}
[[noreturn, gnu::noinline]] void BreakAtShared(unsigned bytes, bool write, const char* problem) {
  Break(fmt::format("{} {} bytes of shared memory, {}", write ? "writes" : "reads", bytes, problem),
        cudaErrorLaunchFailure);
}
[[noreturn, gnu::noinline]] void BreakBeyondShared(std::uintptr_t at) {
  Break(
      fmt::format("byte {} of {} bytes of dynamic shared memory", at, running.launch->shared_bytes),
      cudaErrorIllegalAddress);
}

void CheckDeviceMemory(std::uintptr_t address, unsigned bytes, bool write) {
  if (!UsedBefore(address, bytes)) {
    const Piece* const piece = PieceAt(address);
    if (piece == nullptr || piece->freed || piece->owner != running.launch->device ||
        address + bytes > piece->begin + piece->bytes) {
      BreakAt(address, bytes, write, "", cudaErrorIllegalAddress);
    }
    running.used[running.next_used] = *piece;
    running.next_used = (running.next_used + 1) % running.used.size();
  }
  const std::uint32_t other =
      TouchGlobal(address, bytes, write,
                  {running.number, running.tag, running.interval, running.first_interval});
  if (other != 0) {
    BreakAt(address, bytes, write, ", which another thread of the launch uses",
            cudaErrorLaunchFailure);
  }
}

// Checks an access to the launch's parameters or to constants.
void CheckConstant(std::uintptr_t address, unsigned bytes, bool write) {
  const auto copies = reinterpret_cast<std::uintptr_t>(running.launch->parameters.copies);
  if (!write && address - copies < running.launch->parameters.bytes) return;
  const std::vector<Image::Part>& parts = TheImage().constants;
  const bool found = std::any_of(parts.begin(), parts.end(),
                                 [&](const Image::Part& part) { return part.Has(address); });
  if (!found || write) BreakAt(address, bytes, write, "", cudaErrorIllegalAddress);
}

// A block may use only the dynamic shared memory that its launch requested.
void CheckDynamicShared(std::uintptr_t address, unsigned bytes) {
  const std::uintptr_t at = address - reinterpret_cast<std::uintptr_t>(dynamic_shared);
  if (at < kMaxSharedBytes && at + bytes > running.launch->shared_bytes) BreakBeyondShared(at);
}

// A copy may read and write at any time between its start and its end.
void TouchForCopy(const AsyncCopy& copy, bool begin) {
  Touch(reinterpret_cast<std::uintptr_t>(copy.from), copy.bytes, false);
  const auto to = reinterpret_cast<std::uintptr_t>(copy.to);
  const char* const problem = (begin ? BeginCopyIntoShared : EndCopyIntoShared)(
      to, copy.bytes, running.interval, running.first_interval, running.tag);
  if (problem != nullptr) {
    Break(fmt::format("copies {} bytes into shared memory, {}", copy.bytes, problem),
          cudaErrorLaunchFailure);
  }
}

}  // namespace

float* DynamicShared() {
  return reinterpret_cast<float*>(dynamic_shared);
}

void CopyAsync(void* to, const void* from, unsigned bytes) {
  Place& thread = running.threads[running.current];
  const AsyncCopy copy{static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes,
                       thread.groups};
  const auto at = reinterpret_cast<std::uintptr_t>(to);
  if ((bytes != 4 && bytes != 8 && bytes != 16) || at % bytes != 0 ||
      reinterpret_cast<std::uintptr_t>(from) % bytes != 0) {
    Break(fmt::format("copies {} bytes from {}: misaligned", bytes,
                      Describe(reinterpret_cast<std::uintptr_t>(from))),
          cudaErrorMisalignedAddress);
  }
  if (at - reinterpret_cast<std::uintptr_t>(dynamic_shared) >= kMaxSharedBytes ||
      reinterpret_cast<std::uintptr_t>(from) - TheArena().begin >= TheArena().bytes) {
    Break("copies what is not the device's memory, or not into shared memory",
          cudaErrorIllegalAddress);
  }
  CheckDynamicShared(at, bytes);
  TouchForCopy(copy, true);
  std::memset(to, 0xff, bytes);  // premature readers get NaN
  thread.copies.push_back(copy);
}

void CommitCopies() {
  ++running.threads[running.current].groups;
}

void AwaitCopies(unsigned prior) {
  Place& thread = running.threads[running.current];
  if (IsPlanted(CudaBug::kOneCopyLessIsAwaited)) ++prior;
  const auto first_left =
      std::find_if(thread.copies.begin(), thread.copies.end(),
                   [&](const AsyncCopy& copy) { return copy.group + prior >= thread.groups; });
  for (auto it = thread.copies.begin(); it != first_left; ++it) {
    TouchForCopy(*it, false);
    std::memcpy(it->to, it->from, it->bytes);
  }
  thread.copies.erase(thread.copies.begin(), first_left);
}

void Touch(std::uintptr_t address, unsigned bytes, bool write) {
  if (running.launch == nullptr || OnAStack(address)) return;
  if (bytes <= 16 && (address & (bytes - 1)) != 0) {
    BreakAt(address, bytes, write, ": misaligned", cudaErrorMisalignedAddress);
  }
  if (address - running.arena.begin < running.arena.bytes) {
    CheckDeviceMemory(address, bytes, write);
    return;
  }
  if (!running.variables.Has(address)) {
    CheckConstant(address, bytes, write);
    return;
  }
  CheckDynamicShared(address, bytes);
  const char* const problem =
      TouchShared(address, bytes, write, running.interval, running.first_interval, running.tag);
  if (problem != nullptr) BreakAtShared(bytes, write, problem);
}

void TouchVector(const void* address, bool write) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at % 16 != 0) {
    Break(fmt::format("four words at {}: misaligned", Describe(at)), cudaErrorMisalignedAddress);
  }
#if defined(ACAN_KERNELS_CALL_NO_HOOKS)  // then nobody knows who wrote the words
  static_cast<void>(write);
#else
  Touch(at, 16, write);
#endif
}

}  // namespace cuda_on_cpu
