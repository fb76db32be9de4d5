#include "tuplespace/shared_pool.h"

#include <sys/resource.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <utility>

#include "memfd.h"

namespace tuplespace {

namespace {

// A free block may exceed the request by 1 / kWasteParts of its size.
constexpr std::uint64_t kWasteParts = 4;
// A new block below this size pays only if it is reused, as it costs three processes some system
// calls and page faults each. So one is made only if the pool may keep free blocks of kMinKept
// times its size.
constexpr std::uint64_t kMinUsedOnceBytes = 256 << 10;
constexpr std::uint64_t kMinKept = 16;
// A free block is idle after this many times as many blocks of its size were handed out as exist.
// Counted and not timed, because a slow training needs its blocks again just as a fast one does.
constexpr std::uint64_t kIdleRounds = 8;

// A block that the broker refuses costs more than a copy. The broker refuses blocks while it has as
// many open as it can, which is temporary. So new blocks are tried again, with growing pauses.
constexpr std::uint64_t kMinPause = 64, kMaxPause = 4096;

// Copies of payloads from this size on bypass the caches. Cached writes would first read every line
// from memory, and would keep too little of the block in the cache for a reader on another core.
constexpr std::size_t kPastCachesBytes = 1 << 20;

// REQUIRES: `to` begins a page.
void CopyPastCaches(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = 0;
#if defined(__SSE2__)
  for (; at + 64 <= bytes; at += 64) {
    for (std::size_t i = at; i < at + 64; i += sizeof(__m128i)) {
      const auto* source = reinterpret_cast<const __m128i*>(from + i);
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_loadu_si128(source));
    }
  }
  _mm_sfence();
#endif
  std::memcpy(to + at, from + at, bytes - at);
}

SharedPoolOptions Possible(SharedPoolOptions options) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
    options.segments = std::min<std::uint64_t>(options.segments, files.rlim_cur / 2);
  }
  return options;
}

}  // namespace

struct SharedPool::Owned {
  SharedRegion region;
  MemoryFile file;
  std::uint64_t handles = 0;  // handles of this process
  std::uint64_t lent = 0;     // named to the broker and not freed by it in this session
  bool known = false;         // the broker knows it
  bool spoilt = false;        // a client may read it for ever
  bool refused = false;
  Free::node_type free_node;     // while it is not free: its place among the free blocks
  std::uint64_t free_since = 0;  // Size::handed when it became free
  PayloadHash hash;              // of the first `hashed_bytes`, computed by this process
  std::uint64_t hashed_bytes = 0;
  std::unique_ptr<Owned> next_gone;

  bool free() const { return free_node.empty(); }
};

SharedPool::Gone::Gone() = default;

SharedPool::Gone::~Gone() {
  while (first_) first_ = std::move(first_->next_gone);
}

void SharedPool::Gone::Add(std::unique_ptr<Owned> owned) {
  owned->next_gone = std::move(first_);
  first_ = std::move(owned);
}

SharedPool::SharedPool(SharedPoolOptions options) : options_(Possible(options)) {}
SharedPool::~SharedPool() = default;

std::shared_ptr<SharedPool> SharedPool::Make(SharedPoolOptions options) {
  return std::shared_ptr<SharedPool>(new SharedPool(options));
}

SharedPool::Block SharedPool::Allocate(std::uint64_t bytes) {
  if (bytes < kMinBytes) return nullptr;
  const std::uint64_t capacity_bytes = RoundToPages(bytes);
  Gone gone;
  Owned* owned = nullptr;
  {
    const std::lock_guard lock(mutex_);
    owned = Reuse(capacity_bytes, gone);
    assert(owned == nullptr || (owned->handles == 0 && owned->lent == 0 && !owned->spoilt));
    if (owned != nullptr) ++owned->handles;
  }
  if (owned == nullptr) owned = AddBlock(capacity_bytes);
  return owned == nullptr ? nullptr : Hand(*owned);
}

SharedPool::Owned* SharedPool::AddBlock(std::uint64_t capacity_bytes) {
  {
    const std::lock_guard lock(mutex_);
    const bool kept = capacity_bytes <= FreeLimit() / kMinKept;
    const bool paused = pause_.left > 0;
    if (paused) --pause_.left;
    if (paused || blocks_.size() >= options_.segments ||
        (!kept && capacity_bytes < kMinUsedOnceBytes)) {
      ++counts_.refused;
      return nullptr;
    }
  }
  auto file = MakeMemoryFile(capacity_bytes);
  auto made = std::make_unique<Owned>();
  const std::lock_guard lock(mutex_);
  if (!file) {
    ++counts_.refused;
    return nullptr;
  }
  const std::uint64_t id = next_id_++;
  made->region = {this, id, file->fd.get(), file->mapping.data(), capacity_bytes};
  made->free_node = free_.extract(free_.emplace(capacity_bytes, made.get()));
  const std::size_t ids = dropped_.size() + blocks_.size() + 1;
  if (dropped_.capacity() < ids) dropped_.reserve(2 * ids);
  made->file = *std::move(file);
  Size& size = sizes_[capacity_bytes];
  Owned* const owned = blocks_.emplace(id, std::move(made)).first->second.get();
  ++size.blocks;
  ++size.handed;
  ++owned->handles;
  ++counts_.created;
  if (pause_.length > 0 && ++pause_.made > pause_.length) pause_ = {};
  return owned;
}

SharedPool::Owned* SharedPool::Reuse(std::uint64_t bytes, Gone& gone) {
  const auto oldest = free_.lower_bound(bytes);
  if (oldest == free_.end() || oldest->first - bytes > oldest->first / kWasteParts) return nullptr;
  // Takes the block that became free last, so that unneeded ones grow old.
  const auto latest = std::prev(free_.upper_bound(oldest->first));
  Size& size = sizes_.at(oldest->first);
  ++size.handed;
  Owned* owned = latest->second;
  Owned* idle = latest == oldest ? nullptr : oldest->second;
  owned->free_node = free_.extract(latest);
  counts_.free_bytes -= owned->region.capacity_bytes;
  ++counts_.reused;
  if (idle != nullptr && size.handed - idle->free_since > kIdleRounds * size.blocks) {
    Remove(*idle, gone);
  }
  return owned;
}

// Called without the lock: if there is no memory for the handle, the block is released at once.
SharedPool::Block SharedPool::Hand(Owned& owned) {
  // The handle keeps the pool alive, and so the block.
  return Block(&owned.region,
               [pool = shared_from_this(), &owned](const SharedRegion*) { pool->Released(owned); });
}

Payload SharedPool::CopyOf(const Payload& payload) {
  Block block = Allocate(payload.size());
  if (!block) return payload;
  const SharedRegion* region = block.get();
  const std::size_t bytes = payload.size();
  std::optional<PayloadHash> hash = payload.hash();
  if (hash) {
    std::memcpy(region->data, payload.data(), bytes);
  } else {  // the client that puts it needs the hash, too
    PayloadHasher hasher;
    for (std::size_t at = 0; at < bytes; at += PayloadHasher::kPartBytes) {
      const std::size_t part = std::min(PayloadHasher::kPartBytes, bytes - at);
      if (bytes >= kPastCachesBytes) {
        CopyPastCaches(region->data + at, payload.data() + at, part);
      } else {
        std::memcpy(region->data + at, payload.data() + at, part);
      }
      hasher.Add({payload.data() + at, part});  // the part is in a cache now
    }
    hash = hasher.Hash();
  }
  {
    const std::lock_guard lock(mutex_);
    ++counts_.copied;
  }
  return Payload(std::move(block), region->data, bytes, region).WithHash(hash);
}

void SharedPool::SetFreeLimit(std::function<std::uint64_t()> limit) {
  const std::lock_guard lock(mutex_);
  free_limit_ = std::move(limit);
}

void SharedPool::TrimFree(std::uint64_t free_bytes) {
  Gone gone;
  const std::lock_guard lock(mutex_);
  Trim(free_bytes, gone);
}

void SharedPool::Trim(std::uint64_t limit_bytes, Gone& gone) {
  while (counts_.free_bytes > limit_bytes) {
    const auto largest = std::prev(free_.end());
    Remove(*largest->second, gone);
  }
}

void SharedPool::Released(Owned& owned) {
  Gone gone;
  const std::lock_guard lock(mutex_);
  --owned.handles;
  Settle(owned, gone);
}

// A block without users is kept as free or removed.
void SharedPool::Settle(Owned& owned, Gone& gone) {
  if (owned.handles > 0 || owned.lent > 0) return;
  assert(!owned.free());
  ForgetHash(owned);
  if (owned.spoilt || owned.refused) {
    return Remove(owned, gone);
  }
  owned.free_since = sizes_.at(owned.region.capacity_bytes).handed;
  free_.insert(std::move(owned.free_node));
  counts_.free_bytes += owned.region.capacity_bytes;
  Trim(FreeLimit(), gone);
}

std::uint64_t SharedPool::FreeLimit() const {
  return free_limit_ ? free_limit_() : options_.free_bytes;
}

void SharedPool::Remove(Owned& owned, Gone& gone) {
  if (owned.free()) {
    auto [it, end] = free_.equal_range(owned.region.capacity_bytes);
    while (it != end && it->second != &owned) ++it;
    assert(it != end);
    owned.free_node = free_.extract(it);
    counts_.free_bytes -= owned.region.capacity_bytes;
  }
  ForgetHash(owned);
  const auto size = sizes_.find(owned.region.capacity_bytes);
  if (--size->second.blocks == 0) sizes_.erase(size);
  const auto it = blocks_.find(owned.region.id);
  assert(it != blocks_.end());
  std::unique_ptr<Owned> removed = std::move(it->second);
  blocks_.erase(it);
  if (removed->known) dropped_.push_back(removed->region.id);
  gone.Add(std::move(removed));
}

SharedPool::Counts SharedPool::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.segments = blocks_.size();
  for (const auto& [id, owned] : blocks_) counts.lent += owned->lent > 0 ? 1 : 0;
  return counts;
}

bool SharedPool::CanLend(const Payload& payload) const {
  const SharedRegion* region = payload.region();
  if (region == nullptr || region->home != this || payload.data() != region->data) return false;
  const std::lock_guard lock(mutex_);
  const auto it = blocks_.find(region->id);
  return it != blocks_.end() && !it->second->refused;
}

void SharedPool::Lend(const SharedRegion& block) {
  const std::lock_guard lock(mutex_);
  Owned& owned = *blocks_.at(block.id);
  assert(owned.handles > 0);
  ++owned.lent;
  owned.known = true;
}

void SharedPool::RememberHash(const Payload& payload) {
  if (!payload.hash()) return;
  const std::lock_guard lock(mutex_);
  Owned& owned = *blocks_.at(payload.region()->id);
  assert(owned.lent > 0);
  ForgetHash(owned);
  owned.hash = *payload.hash();
  owned.hashed_bytes = payload.size();
  hashed_.insert_or_assign(owned.hash.low, &owned);
}

void SharedPool::ForgetHash(Owned& owned) {
  if (owned.hashed_bytes == 0) return;
  owned.hashed_bytes = 0;
  const auto it = hashed_.find(owned.hash.low);
  if (it != hashed_.end() && it->second == &owned) hashed_.erase(it);
}

SharedPool::Block SharedPool::Find(const PayloadHash& hash, std::uint64_t bytes) {
  Owned* owned = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto it = hashed_.find(hash.low);
    if (it == hashed_.end()) return nullptr;
    owned = it->second;
    if (owned->hash != hash || owned->hashed_bytes != bytes) return nullptr;
    ++owned->handles;
  }
  return Hand(*owned);
}

void SharedPool::Freed(std::uint64_t id, std::uint64_t count) {
  Unlend(id, count, false);
}

void SharedPool::Spoilt(std::uint64_t id, std::uint64_t count) {
  Unlend(id, count, true);
}

void SharedPool::Unlend(std::uint64_t id, std::uint64_t count, bool spoilt) {
  Gone gone;
  const std::lock_guard lock(mutex_);
  const auto it = blocks_.find(id);
  // If the broker counts wrongly, the block is not reused.
  if (it == blocks_.end() || it->second->lent < count) return;
  Owned& owned = *it->second;
  owned.lent -= count;
  if (spoilt) {
    owned.spoilt = true;
    owned.known = owned.lent > 0;  // otherwise the broker has closed it
  }
  if (!owned.free()) Settle(owned, gone);
}

void SharedPool::Refused(std::uint64_t id) {
  Gone gone;
  const std::lock_guard lock(mutex_);
  const auto it = blocks_.find(id);
  if (it == blocks_.end() || it->second->lent == 0) return;
  if (pause_.length == 0 || pause_.made > 0) {
    pause_.length = std::clamp(2 * pause_.length, kMinPause, kMaxPause);
    pause_.made = 0;
  }
  pause_.left = pause_.length;
  Owned& owned = *it->second;
  --owned.lent;
  owned.refused = true;
  Settle(owned, gone);
}

void SharedPool::SessionEnded() {
  Gone gone;
  const std::lock_guard lock(mutex_);
  std::vector<Owned*> lent;
  for (auto& [id, owned] : blocks_) {
    owned->known = false;
    if (owned->lent > 0) lent.push_back(owned.get());
  }
  for (Owned* owned : lent) {
    owned->lent = 0;
    owned->spoilt = true;
    Settle(*owned, gone);
  }
  dropped_.clear();
  pause_ = {};
}

std::vector<std::uint64_t> SharedPool::TakeDropped() {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> dropped = dropped_;
  dropped_.clear();  // keeps its room
  return dropped;
}

}  // namespace tuplespace
