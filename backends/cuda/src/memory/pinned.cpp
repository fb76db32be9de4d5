#include "memory/pinned.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <future>
#include <utility>

#include "acan/core/memory_budget.h"
#include "acan/cuda/planted.h"

namespace acan::cuda {
namespace {

constexpr std::size_t kPinnedGrain = 64 << 10;
constexpr std::size_t kMaxCachedBytes = std::size_t{1} << 30;
constexpr std::size_t kSlotBytes = 4 << 20;
constexpr std::size_t kMinShareBytes = 8 << 20;  // with less, a thread's start costs as much

// Sizes that differ little share pieces: there are eight size classes between neighbouring powers
// of two.
std::size_t SizeClass(std::size_t bytes) {
  const std::size_t grain = std::max(kPinnedGrain, std::bit_floor(bytes) / 8);
  const std::size_t rounded = std::max<std::size_t>(1, (bytes + grain - 1) / grain) * grain;
  return IsPlanted(CudaBug::kPinnedPieceIsTooSmall) ? (bytes + 1) / 2 : rounded;
}

PinnedBytes NewPinned(std::size_t bytes, const std::string& device) {
  void* memory = nullptr;
  Check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable),
        fmt::format("cudaHostAlloc of {} bytes", bytes), device);
  return PinnedBytes(memory);
}

}  // namespace

std::shared_ptr<void> PinnedPool::Take(std::size_t bytes) {
  std::list<Piece> taken;  // one piece
  const std::size_t rounded = SizeClass(bytes);
  // Freed here and not where they are given back, and without the lock, because freeing may wait
  // for the device.
  std::list<Piece> surplus;
  {
    const std::lock_guard lock(cache_->mutex);
    const auto found = std::find_if(cache_->pieces.rbegin(), cache_->pieces.rend(),
                                    [&](const Piece& each) { return each.bytes == rounded; });
    if (found != cache_->pieces.rend()) {
      taken.splice(taken.end(), cache_->pieces, std::next(found).base());
      cache_->bytes -= rounded;
    }
    // The warmest piece stays, so that results larger than the cache are not allocated anew each
    // time.
    while (cache_->bytes > kMaxCachedBytes && cache_->pieces.size() > 1) {
      cache_->bytes -= cache_->pieces.front().bytes;
      surplus.splice(surplus.end(), cache_->pieces, cache_->pieces.begin());
    }
  }
  surplus.clear();
  if (taken.empty()) taken.push_back({NewPinned(rounded, device_), rounded});
  void* const memory = taken.front().memory.get();
  auto owned = std::make_shared<std::list<Piece>>(std::move(taken));
  return {memory, [owned, cache = cache_](void*) {  // allocates nothing, and so never throws
            const std::lock_guard lock(cache->mutex);
            cache->bytes += owned->front().bytes;
            cache->pieces.splice(cache->pieces.end(), *owned);
          }};
}

Staging::~Staging() {
  if (IsPlanted(CudaBug::kStagingEndsAtOnce)) return;
  for (const Slot& slot : slots_) {
    if (slot.free.get() != nullptr) cudaEventSynchronize(slot.free.get());
  }
}

// A slot that the device has finished reading.
Staging::Slot& Staging::NextSlot() {
  if (slots_.size() < 2) AddSlot();
  if (slots_.size() < most_slots_ && !HasEnded(slots_[next_].free.get())) {
    try {
      AddSlot();
    } catch (const OutOfMemory&) {  // then it waits for the existing slots
      most_slots_ = slots_.size();
    }
  }
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  if (!IsPlanted(CudaBug::kSlotIsNotAwaited)) {
    Check(cudaEventSynchronize(slot.free.get()), "cudaEventSynchronize", device_);
  }
  return slot;
}

// Inserts a slot before the one that was used longest ago.
void Staging::AddSlot() {
  Slot slot;
  slot.memory = NewPinned(kSlotBytes, device_);
  slot.free = NewEvent(device_);
  slots_.insert(slots_.begin() + static_cast<std::ptrdiff_t>(next_), std::move(slot));
}

void Staging::Copy(const std::byte* from, std::byte* to, std::size_t row_bytes, std::size_t rows,
                   std::size_t to_pitch, cudaStream_t stream) {
  if (rows > 1 && (to_pitch == row_bytes || row_bytes > kSlotBytes)) {
    if (to_pitch == row_bytes) return Copy(from, to, row_bytes * rows, 1, 0, stream);
    for (std::size_t r = 0; r < rows; ++r) {
      Copy(from + r * row_bytes, to + r * to_pitch, row_bytes, 1, 0, stream);
    }
    return;
  }
  // Copies one long row in pieces, or several rows at once.
  const std::size_t unit = rows == 1 ? 1 : row_bytes;
  const std::size_t units = rows == 1 ? row_bytes : rows;
  const std::size_t at_once = kSlotBytes / unit;
  for (std::size_t done = 0; done < units; done += at_once) {
    const std::size_t count = std::min(at_once, units - done);
    const Slot& slot = NextSlot();
    std::memcpy(slot.memory.get(), from + done * unit, count * unit);
    if (rows == 1) {
      Check(cudaMemcpyAsync(to + done, slot.memory.get(), count, cudaMemcpyHostToDevice, stream),
            "cudaMemcpyAsync to the device", device_);
    } else {
      const std::size_t pitch = IsPlanted(CudaBug::kRowsLoseTheirPitch) ? row_bytes : to_pitch;
      Check(cudaMemcpy2DAsync(to + done * to_pitch, pitch, slot.memory.get(), row_bytes, row_bytes,
                              count, cudaMemcpyHostToDevice, stream),
            "cudaMemcpy2DAsync to the device", device_);
    }
    if (IsPlanted(CudaBug::kSlotIsNotRecorded)) continue;
    Check(cudaEventRecord(slot.free.get(), stream), "cudaEventRecord", device_);
  }
}

ParallelStaging::ParallelStaging(std::string device, int ordinal, std::size_t threads)
    : device_(std::move(device)), ordinal_(ordinal) {
  // Only these copies are in their stream, so two slots are enough.
  for (std::size_t i = 0; i < threads; ++i) lanes_.emplace_back(device_, 2);
}

void ParallelStaging::Copy(const std::byte* from, std::byte* to, std::size_t bytes,
                           cudaStream_t stream) {
  const std::size_t shares = std::clamp<std::size_t>(bytes / kMinShareBytes, 1, lanes_.size());
  // Whole pieces, so that each thread fills its pieces completely.
  const std::size_t pieces = (bytes + kSlotBytes - 1) / kSlotBytes;
  const std::size_t share = (pieces + shares - 1) / shares * kSlotBytes;
  std::vector<std::future<void>> others;
  auto lane = std::next(lanes_.begin());
  for (std::size_t at = share; at < bytes; at += share, ++lane) {
    others.push_back(std::async(std::launch::async, [=, this] {
      Check(cudaSetDevice(ordinal_), "cudaSetDevice", device_);
      lane->Copy(from + at, to + at, std::min(share, bytes - at), 1, 0, stream);
    }));
  }
  lanes_.front().Copy(from, to, std::min(share, bytes), 1, 0, stream);
  for (std::future<void>& other : others) other.get();
}

FetchStaging::FetchStaging(std::string device, std::size_t most_bytes, cudaStream_t stream)
    : device_(std::move(device)),
      slot_bytes_(std::clamp(most_bytes, kPinnedGrain, kSlotBytes)),
      stream_(stream) {
  for (Slot& slot : slots_) slot = {NewPinned(slot_bytes_, device_), NewEvent(device_)};
}

FetchStaging::~FetchStaging() {
  cudaStreamSynchronize(stream_);
}

void FetchStaging::Copy(const std::byte* from, std::byte* to, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t pieces = (bytes + slot_bytes_ - 1) / slot_bytes_;
  const auto size = [&](std::size_t piece) {
    return std::min(slot_bytes_, bytes - piece * slot_bytes_);
  };
  // One piece is in transfer while the thread copies the one before it.
  for (std::size_t piece = 0; piece <= pieces; ++piece) {
    if (piece < pieces) {
      const Slot& slot = slots_[piece % 2];
      Check(cudaMemcpyAsync(slot.memory.get(), from + piece * slot_bytes_, size(piece),
                            cudaMemcpyDeviceToHost, stream_),
            "cudaMemcpyAsync from the device", device_);
      Check(cudaEventRecord(slot.arrived.get(), stream_), "cudaEventRecord", device_);
    }
    if (piece == 0) continue;
    const Slot& before = slots_[(piece - 1) % 2];
    if (!IsPlanted(CudaBug::kFetchDoesNotWait)) {
      Check(cudaEventSynchronize(before.arrived.get()), "cudaEventSynchronize", device_);
    }
    std::memcpy(to + (piece - 1) * slot_bytes_, before.memory.get(), size(piece - 1));
  }
}

}  // namespace acan::cuda
