#include "gpu.h"

#include <fmt/format.h>

#include <algorithm>

#include "acan/cuda/planted.h"

namespace acan::cuda {
namespace {

constexpr std::uint64_t kAllocationGrain = 256;  // cudaMalloc's alignment; closer sizes share
// For allocations larger than this, the driver takes whole chunks; it cuts smaller ones from a
// chunk.
constexpr std::uint64_t kMaxCut = 1 << 20;
constexpr std::uint64_t kChunk = 2 << 20;

std::uint64_t Rounded(std::uint64_t bytes) {
  const std::uint64_t grain = bytes <= kMaxCut ? kAllocationGrain : kChunk;
  return (bytes + grain - 1) / grain * grain;
}

}  // namespace

Gpu::Gpu(int ordinal, std::string name, std::uint64_t limit_bytes)
    : ordinal_(ordinal), name_(std::move(name)), budget_(limit_bytes), pinned_(name_, ordinal_) {
  Enter();
  compute_ = NewStream(name_);
  uploads_ = NewStream(name_);
  downloads_ = NewStream(name_);
  fetches_ = NewStream(name_);
}

Gpu::~Gpu() {
  cudaSetDevice(ordinal_);
  ShrinkCache(0);
}

Block Gpu::Take(std::uint64_t bytes, Lane lane) {
  Block block;
  const std::lock_guard lock(mutex_);
  budget_.Charge(bytes);
  if (bytes == 0) return block;
  try {
    const std::uint64_t rounded =
        IsPlanted(CudaBug::kBlockIsTooSmall) ? (bytes + 1) / 2 : Rounded(bytes);
    std::optional<Block> cached = TakeCached(rounded, lane);
    if (!cached) {
      block = NewBlock(rounded);
      rounded_bytes_ += rounded - bytes;
      return block;
    }
    block = std::move(*cached);
    rounded_bytes_ += rounded - bytes;
    if (block.busy_on && *block.busy_on != lane && !IsPlanted(CudaBug::kReuseDoesNotWait)) {
      Check(cudaStreamWaitEvent(StreamOf(lane), block.event.get(), 0), "cudaStreamWaitEvent",
            name_);
    }
    block.busy_on.reset();
    return block;
  } catch (...) {
    if (!IsPlanted(CudaBug::kBudgetIsNotGivenBack)) budget_.Release(bytes);
    throw;
  }
}

// A cached block of this size for `lane`; none if a new block is better.
// REQUIRES: the mutex is held, the bytes are charged.
std::optional<Block> Gpu::TakeCached(std::uint64_t bytes, Lane lane) {
  if (lane == Lane::kUpload) {
    // An upload that waits for a block does not overlap with computing. So busy blocks are the last
    // choice, and the coldest of them becomes free first.
    std::optional<Block> free =
        cache_.TakeColdestThat(bytes, [&](const Block& each) { return !IsBusy(each, lane); });
    if (free || cache_.bytes() <= RoomForCache()) return free;
    return cache_.TakeColdest(bytes);
  }
  // The warmest: the block that was released last is most likely still in the device's cache.
  return cache_.TakeWarmest(bytes);
}

bool Gpu::IsBusy(const Block& block, Lane lane) {
  if (!block.busy_on || *block.busy_on == lane) return false;
  return !HasEnded(block.event.get());
}

// REQUIRES: the mutex is held, the bytes are charged.
Block Gpu::NewBlock(std::uint64_t bytes) {
  if (!IsPlanted(CudaBug::kCacheIgnoresTheLimit)) ShrinkCache(RoomForCache());
  void* memory = nullptr;
  cudaError_t error = cudaMalloc(&memory, bytes);
  if (FaultOf(error) == Fault::kMemory && !cache_.empty()) {
    // Others use the device, too, so it may have less left than the limit.
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

// The part of the limit that used memory leaves.
std::uint64_t Gpu::RoomForCache() const {
  const std::uint64_t used = budget_.used_bytes() + rounded_bytes_;
  return budget_.limit_bytes() - std::min(used, budget_.limit_bytes());
}

// CUDA does not promise that cudaFree waits for the device's work on the memory.
void Gpu::Free(Block block) {
  if (!block.busy_on || IsPlanted(CudaBug::kBusyBlocksAreFreed)) return;
  cudaEventSynchronize(block.event.get());  // a lost device does not use it either
}

void Gpu::ShrinkCache(std::uint64_t most_bytes) {
  while (cache_.bytes() > most_bytes) Free(std::move(*cache_.TakeColdest()));
}

void Gpu::Give(Block block, std::uint64_t bytes) noexcept {
  const bool entered = cudaSetDevice(ordinal_) == cudaSuccess;
  const std::lock_guard lock(mutex_);
  budget_.Release(bytes);
  if (block.memory.get() == nullptr) return;
  rounded_bytes_ -= block.bytes - bytes;
  const bool known = entered && block.busy_on && RecordEnd(block);
  if (!known) {  // most likely the device is lost; otherwise it must finish with the block
    if (entered) cudaDeviceSynchronize();
    return;
  }
  try {
    cache_.Add(std::move(block));
  } catch (const std::bad_alloc&) {
    return Free(std::move(block));
  }
  // Rounding may have put the cache a little above the limit.
  ShrinkCache(RoomForCache());
}

// Records the block's event after the work of its lane; false if that fails.
bool Gpu::RecordEnd(const Block& block) const {
  if (IsPlanted(CudaBug::kReleaseIsNotRecorded)) return true;
  const Lane other = *block.busy_on == Lane::kUpload ? Lane::kCompute : Lane::kUpload;
  const Lane lane = IsPlanted(CudaBug::kReleaseIsRecordedElsewhere) ? other : *block.busy_on;
  return cudaEventRecord(block.event.get(), StreamOf(lane)) == cudaSuccess;
}

std::uint64_t Gpu::cached_bytes() const {
  const std::lock_guard lock(mutex_);
  return cache_.bytes();
}

}  // namespace acan::cuda
