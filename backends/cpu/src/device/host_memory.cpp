#include "device/host_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <new>

namespace acan {

namespace {

// The C library itself keeps smaller blocks.
constexpr std::uint64_t kMinKeptBytes = 128 << 10;
// The least limit for huge pages. A partly used huge page is then less than a thirtieth of the
// limit.
constexpr std::uint64_t kMinForHugePages = 64u << 20;
// The sanitizer finds accesses beyond a buffer only if its own allocator has made the buffer.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kUsesHugePages = false;
#else
constexpr bool kUsesHugePages = true;
#endif

std::uint64_t Rounded(std::uint64_t bytes) {
  constexpr std::uint64_t kStep = HostMemory::kAlignmentBytes;
  return std::max<std::uint64_t>((bytes + kStep - 1) / kStep * kStep, kStep);
}

}  // namespace

HostMemory::HostMemory(std::uint64_t limit_bytes)
    : budget_(limit_bytes), has_huge_pages_(kUsesHugePages && limit_bytes >= kMinForHugePages) {}

HostMemory::~HostMemory() {
  KeepAtMost(0);
}

bool HostMemory::IsOfHugePages(std::uint64_t rounded_bytes) const {
  return has_huge_pages_ && rounded_bytes >= kMinKeptBytes;
}

void HostMemory::Free(void* memory, std::uint64_t rounded_bytes) {
  if (IsOfHugePages(rounded_bytes)) {
    huge_pages_.Give(memory, rounded_bytes);
  } else {
    std::free(memory);
  }
}

void HostMemory::UsePool(std::shared_ptr<tuplespace::SharedPool> pool) {
  pool_ = std::move(pool);
  pool_->SetFreeLimit([memory = weak_from_this()] {
    const auto alive = memory.lock();
    return alive ? alive->RoomBytes() : 0;
  });
}

std::uint64_t HostMemory::RoomBytes() const {
  const std::uint64_t taken = budget_.used_bytes() + kept_bytes_.load(std::memory_order_relaxed);
  return budget_.limit_bytes() - std::min(taken, budget_.limit_bytes());
}

void HostMemory::Charge(std::uint64_t bytes) {
  budget_.Charge(bytes);
  {
    const std::lock_guard lock(mutex_);
    KeepAtMost(budget_.limit_bytes() - std::min(budget_.used_bytes(), budget_.limit_bytes()));
  }
  if (pool_) pool_->TrimFree(RoomBytes());
}

void HostMemory::KeepAtMost(std::uint64_t bytes) {
  while (kept_bytes_.load(std::memory_order_relaxed) > bytes) {
    const auto largest = std::prev(kept_.end());
    kept_bytes_.fetch_sub(largest->first, std::memory_order_relaxed);
    Free(largest->second, largest->first);
    kept_.erase(largest);
  }
}

void* HostMemory::TryToTake(std::uint64_t rounded) {
  if (rounded >= kMinKeptBytes) {
    const std::lock_guard lock(mutex_);
    // Takes only memory of exactly this size, since memory is given back with its requested size.
    const auto it = kept_.find(rounded);
    if (it != kept_.end()) {
      void* const memory = it->second;
      kept_bytes_.fetch_sub(rounded, std::memory_order_relaxed);
      kept_.erase(it);
      return memory;
    }
    if (IsOfHugePages(rounded)) return huge_pages_.Take(rounded);
  }
  return std::aligned_alloc(kAlignmentBytes, rounded);
}

void* HostMemory::Take(std::uint64_t bytes) {
  const std::uint64_t rounded = Rounded(bytes);
  void* memory = TryToTake(rounded);
  if (memory == nullptr) {
    // The system may have less than the limit. Then what is kept is what it lacks.
    {
      const std::lock_guard lock(mutex_);
      KeepAtMost(0);
    }
    if (pool_) pool_->TrimFree(0);
    memory = TryToTake(rounded);
  }
  if (memory != nullptr) return memory;
  throw OutOfMemory(fmt::format("the system has no {} bytes for a buffer", bytes));
}

void HostMemory::Give(void* memory, std::uint64_t bytes) noexcept {
  const std::uint64_t rounded = Rounded(bytes);
  if (rounded < kMinKeptBytes) return std::free(memory);
  const std::lock_guard lock(mutex_);
  if (rounded > RoomBytes()) return Free(memory, rounded);
  try {
    kept_.emplace(rounded, memory);
    kept_bytes_.fetch_add(rounded, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    Free(memory, rounded);
  }
}

tuplespace::SharedPool::Block HostMemory::TakeResult(std::uint64_t bytes) {
  return pool_ ? pool_->Allocate(bytes) : nullptr;
}

}  // namespace acan
