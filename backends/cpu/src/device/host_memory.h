// HostMemory: the source of the CPU device's buffers. Pages that the system has just mapped are
// expensive (it zeroes and maps them one by one), so released memory is kept for the next buffer:
// private memory here, results in the pool from which they can be shared. Kept and used memory
// together never exceed the limit. Large private buffers have huge pages if the limit is so large
// that the unused rest of such a page does not matter. Thread safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "acan/core/memory_budget.h"
#include "device/huge_pages.h"
#include "tuplespace/shared_pool.h"

namespace acan {

class HostMemory : public std::enable_shared_from_this<HostMemory> {
 public:
  static constexpr std::size_t kAlignmentBytes = 64;

  explicit HostMemory(std::uint64_t limit_bytes);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // REQUIRES: once, before any TakeResult.
  void UsePool(std::shared_ptr<tuplespace::SharedPool> pool);

  // Also counts memory that the caller owns. Throws OutOfMemory beyond the limit.
  void Charge(std::uint64_t bytes);
  void Release(std::uint64_t bytes) { budget_.Release(bytes); }

  // REQUIRES: they are charged. Throws OutOfMemory if the system has none.
  void* Take(std::uint64_t bytes);
  void Give(void* memory, std::uint64_t bytes) noexcept;
  // Null if there is no pool, or if SharedPool::Allocate returns no block.
  tuplespace::SharedPool::Block TakeResult(std::uint64_t bytes);

  const MemoryBudget& budget() const { return budget_; }

 private:
  std::uint64_t RoomBytes() const;  // of the limit, less what is in use and what is kept here
  bool IsOfHugePages(std::uint64_t rounded_bytes) const;
  void* TryToTake(std::uint64_t rounded_bytes);          // null: the system has none
  void KeepAtMost(std::uint64_t bytes);                  // with mutex_ held; frees the rest
  void Free(void* memory, std::uint64_t rounded_bytes);  // with mutex_ held

  MemoryBudget budget_;
  std::shared_ptr<tuplespace::SharedPool> pool_;
  std::mutex mutex_;
  const bool has_huge_pages_;
  HugePages huge_pages_;
  std::multimap<std::uint64_t, void*> kept_;  // by size
  std::atomic<std::uint64_t> kept_bytes_{0};
};

}  // namespace acan
