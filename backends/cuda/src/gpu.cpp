#include "gpu.h"

#include <fmt/format.h>

#include <algorithm>

namespace acan::cuda {
namespace {

constexpr std::uint64_t kGrain = 256;  // cudaMalloc aligns to it; sizes that differ by less share

}  // namespace

Gpu::Gpu(int ordinal, std::string name, std::uint64_t limit_bytes)
    : ordinal_(ordinal), name_(std::move(name)), budget_(limit_bytes), pinned_(name_) {
  Enter();
  compute_ = NewStream(name_);
  uploads_ = NewStream(name_);
  downloads_ = NewStream(name_);
  fetches_ = NewStream(name_);
}

Block Gpu::Take(std::uint64_t bytes, Lane lane) {
  Block block;
  const std::lock_guard lock(mutex_);
  budget_.Charge(bytes);
  if (bytes == 0) return block;
  try {
    const std::uint64_t rounded = (bytes + kGrain - 1) / kGrain * kGrain;
    const auto found = FindCached(rounded, lane);
    if (found == cache_.end()) return NewBlock(rounded);
    block = std::move(*found);
    cache_.erase(found);
    cached_bytes_ -= rounded;
    if (block.busy_on && *block.busy_on != lane) {
      Check(cudaStreamWaitEvent(StreamOf(lane), block.event.get(), 0), "cudaStreamWaitEvent",
            name_);
    }
    block.busy_on.reset();
    return block;
  } catch (...) {
    budget_.Release(bytes);
    throw;
  }
}

// A cached block of this size that `lane` should use, or the end if a new one is better.
// REQUIRES: the mutex is held, the bytes are charged.
std::list<Block>::iterator Gpu::FindCached(std::uint64_t bytes, Lane lane) {
  if (lane == Lane::kUpload) {
    // An upload that waits for a block is one that does not run beside the computing: those that
    // are busy are the last choice, and the coldest is the first to be free.
    const auto free = std::find_if(cache_.begin(), cache_.end(), [&](const Block& each) {
      return each.bytes == bytes && !IsBusy(each, lane);
    });
    const bool room = budget_.used_bytes() + cached_bytes_ <= budget_.limit_bytes();
    if (free != cache_.end() || room) return free;
  }
  // The warmest: what was released last is most likely still in the device's cache.
  const auto found = std::find_if(cache_.rbegin(), cache_.rend(),
                                  [&](const Block& each) { return each.bytes == bytes; });
  return found == cache_.rend() ? cache_.end() : std::next(found).base();
}

bool Gpu::IsBusy(const Block& block, Lane lane) {
  if (!block.busy_on || *block.busy_on == lane) return false;
  const bool busy = cudaEventQuery(block.event.get()) != cudaSuccess;
  if (busy) cudaGetLastError();  // that it is not ready is no error of the next call
  return busy;
}

// REQUIRES: the mutex is held, the bytes are charged.
Block Gpu::NewBlock(std::uint64_t bytes) {
  const std::uint64_t used = budget_.used_bytes();
  ShrinkCache(budget_.limit_bytes() - std::min(used, budget_.limit_bytes()));
  void* memory = nullptr;
  cudaError_t error = cudaMalloc(&memory, bytes);
  if (FaultOf(error) == Fault::kMemory && !cache_.empty()) {
    // Others use the device too: it may have less left than the limit.
    cudaGetLastError();
    ShrinkCache(0);
    error = cudaMalloc(&memory, bytes);
  }
  Check(error, fmt::format("cudaMalloc of {} bytes", bytes), name_);
  Block block;
  block.memory = DeviceBytes(memory);
  block.bytes = bytes;
  block.event = NewEvent(name_);
  return block;
}

// cudaFree waits for what the device does.
void Gpu::ShrinkCache(std::uint64_t most_bytes) {
  while (cached_bytes_ > most_bytes) {
    cached_bytes_ -= cache_.front().bytes;
    cache_.pop_front();
  }
}

void Gpu::Give(Block block, std::uint64_t bytes) noexcept {
  const bool entered = cudaSetDevice(ordinal_) == cudaSuccess;
  const std::lock_guard lock(mutex_);
  const bool known = entered && block.memory.get() != nullptr && block.busy_on &&
                     cudaEventRecord(block.event.get(), StreamOf(*block.busy_on)) == cudaSuccess;
  budget_.Release(bytes);
  if (!known) return;  // freed by cudaFree, which waits by itself
  cached_bytes_ += block.bytes;
  cache_.push_back(std::move(block));
  // Rounding may have brought the cache a little above the limit.
  ShrinkCache(budget_.limit_bytes() - std::min(budget_.used_bytes(), budget_.limit_bytes()));
}

std::uint64_t Gpu::cached_bytes() const {
  const std::lock_guard lock(mutex_);
  return cached_bytes_;
}

}  // namespace acan::cuda
