// Gpu: one GPU as a Device and its buffers share it: streams and memory. It lives as long as the
// last of them. Public methods may be called on any thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "acan/core/memory_budget.h"
#include "handles.h"
#include "pinned.h"

namespace acan::cuda {

enum class Lane : std::uint8_t { kCompute, kUpload };  // the streams that write to buffers

// Memory of the device, and the last work on it that may still be under way.
struct Block {
  DeviceBytes memory;
  std::uint64_t bytes = 0;  // rounded up
  Event event;              // recorded behind that work; for its owner to use in the meantime
  std::optional<Lane> busy_on;
};

class Gpu {
 public:
  Gpu(int ordinal, std::string name, std::uint64_t limit_bytes);

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
  // OutOfMemory. Bytes in use and bytes in the cache together never exceed the limit.
  Block Take(std::uint64_t bytes, Lane lane);
  // Gives the block of `bytes` back. Its busy_on is the lane behind whose work until now it is
  // free. Throws nothing: a lost device cannot take it back.
  void Give(Block block, std::uint64_t bytes) noexcept;
  std::uint64_t cached_bytes() const;

 private:
  cudaStream_t StreamOf(Lane lane) const {
    return lane == Lane::kCompute ? compute_.get() : uploads_.get();
  }
  std::list<Block>::iterator FindCached(std::uint64_t bytes, Lane lane);
  static bool IsBusy(const Block& block, Lane lane);  // work on another lane is under way
  Block NewBlock(std::uint64_t bytes);
  void ShrinkCache(std::uint64_t most_bytes);

  const int ordinal_;
  const std::string name_;
  MemoryBudget budget_;
  Stream compute_, uploads_, downloads_, fetches_;
  PinnedPool pinned_;
  mutable std::mutex mutex_;
  std::list<Block> cache_;  // the coldest first
  std::uint64_t cached_bytes_ = 0;
};

}  // namespace acan::cuda
