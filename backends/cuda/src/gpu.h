// Gpu: one GPU as a Device and its buffers share it: streams and memory. It lives as long as the
// last of them. Public methods may be called on any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "acan/core/memory_budget.h"
#include "acan/cuda/planted.h"
#include "handles.h"
#include "memory/block.h"
#include "memory/block_cache.h"
#include "memory/pinned.h"

namespace acan::cuda {

class Gpu {
 public:
  Gpu(int ordinal, std::string name, std::uint64_t limit_bytes);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // CUDA's current device is the thread's: to be called before anything else on a thread that may
  // be new.
  void Enter() const { Check(cudaSetDevice(ordinal_), "cudaSetDevice", name_); }

  int ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }
  MemoryBudget& budget() { return budget_; }
  PinnedPool& pinned() { return pinned_; }
  cudaStream_t compute() const { return compute_.get(); }
  cudaStream_t uploads() const { return uploads_.get(); }
  cudaStream_t downloads() const { return downloads_.get(); }
  cudaStream_t fetches() const { return fetches_.get(); }  // of what is complete

  // A block of at least `bytes`, charged to the budget, that work on `lane` may use at once. Throws
  // OutOfMemory. What is in use and what is cached, as the driver counts both, exceed the limit
  // only where the driver rounds up what is in use.
  Block Take(std::uint64_t bytes, Lane lane);
  // Gives the block of `bytes` back. Its busy_on is the lane behind whose work until now it is
  // free. Throws nothing: a lost device cannot take it back.
  void Give(Block block, std::uint64_t bytes) noexcept;
  std::uint64_t cached_bytes() const;

 private:
  cudaStream_t StreamOf(Lane lane) const {
    return lane == Lane::kCompute ? compute_.get() : uploads_.get();
  }
  std::optional<Block> TakeCached(std::uint64_t bytes, Lane lane);
  static bool IsBusy(const Block& block, Lane lane);  // work on another lane is under way
  Block NewBlock(std::uint64_t bytes);
  void ShrinkCache(std::uint64_t most_bytes);
  static void Free(Block block);
  bool RecordEnd(const Block& block) const;
  std::uint64_t RoomForCache() const;

  const int ordinal_;
  const std::string name_;
  MemoryBudget budget_;
  Stream compute_, uploads_, downloads_, fetches_;
  PinnedPool pinned_;
  mutable std::mutex mutex_;
  BlockCache cache_;
  std::uint64_t rounded_bytes_ = 0;  // that blocks in use have beyond what is charged
};

}  // namespace acan::cuda
