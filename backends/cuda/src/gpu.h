// Gpu: the streams and the memory of one GPU, shared by a Device and its buffers. It lives as long
// as the last of them. Any thread may call its public methods.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "acan/core/memory_budget.h"
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

  // CUDA's current device is a property of the thread, so call this before anything else on a
  // thread that may be new.
  void Enter() const { Check(cudaSetDevice(ordinal_), "cudaSetDevice", name_); }

  int ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }
  MemoryBudget& budget() { return budget_; }
  PinnedPool& pinned() { return pinned_; }
  cudaStream_t compute() const { return compute_.get(); }
  cudaStream_t uploads() const { return uploads_.get(); }
  cudaStream_t downloads() const { return downloads_.get(); }
  cudaStream_t fetches() const { return fetches_.get(); }  // of completed results

  // A block of at least `bytes`, charged to the budget, that work on `lane` may use at once. Throws
  // OutOfMemory. Used and cached blocks, as the driver counts them, exceed the limit only by the
  // driver's rounding of used blocks.
  Block Take(std::uint64_t bytes, Lane lane);
  // Gives back the block of `bytes`. The block is free after the work submitted so far to the lane
  // in its busy_on. Throws nothing: a lost device cannot take the block back.
  void Give(Block block, std::uint64_t bytes) noexcept;
  std::uint64_t cached_bytes() const;

 private:
  cudaStream_t StreamOf(Lane lane) const {
    return lane == Lane::kCompute ? compute_.get() : uploads_.get();
  }
  std::optional<Block> TakeCached(std::uint64_t bytes, Lane lane);
  static bool IsBusy(const Block& block, Lane lane);  // whether work on another lane still uses it
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
  std::uint64_t rounded_bytes_ = 0;  // of blocks in use, beyond what is charged
};

}  // namespace acan::cuda
