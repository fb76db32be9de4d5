// SharedPool: memory into which results are written once, in place, and which other processes of
// this host read without a copy. Give it to a Client. If the broker can open it, payloads in it are
// sent by name (PROTOCOL.md, "Shared memory"), otherwise as bytes.
//
// A block is a memfd that no other process can write, shrink or grow. This process allocates and
// writes it and then puts it; after that it must not be written. It becomes free when this process,
// the space and all readers have dropped it. Free blocks are kept for later allocations, as the
// pages of new ones cost more than copying, until they prove to be unnecessary. The memory is freed
// when the last process that has it open ends.
//
// Thread safe, except for the part that only Client calls.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tuplespace/payload.h"

namespace tuplespace {

struct SharedPoolOptions {
  std::uint64_t segments = 4096;  // at most, and at most half of this process's descriptor limit
  std::uint64_t free_bytes = 256ull << 20;  // maximum of free bytes that are kept
};

class SharedPool : public std::enable_shared_from_this<SharedPool> {
 public:
  // Smaller payloads are not worth a block: their bytes are sent.
  static constexpr std::uint64_t kMinBytes = 16 << 10;

  using Block = std::shared_ptr<const SharedRegion>;

  static std::shared_ptr<SharedPool> Make(SharedPoolOptions options = {});
  ~SharedPool();
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;

  // A block of at least `bytes`, uninitialised, with its pages allocated. Null if memory or
  // descriptors have run out, if the broker recently refused to open more, if it is too small for a
  // block, or if it is small and could not be kept when it is free. Use other memory then.
  Block Allocate(std::uint64_t bytes);
  // A block with a copy of these bytes, which are hashed on the way; `payload` itself if there is
  // no block for it.
  Payload CopyOf(const Payload& payload);

  // Replaces the options' limit of free bytes. `limit` is called, on any thread, whenever a block
  // becomes free or a new one might be made. The pool's lock is held, so `limit` must not call the
  // pool.
  void SetFreeLimit(std::function<std::uint64_t()> limit);
  // Returns free blocks to the system until at most `free_bytes` bytes are free.
  void TrimFree(std::uint64_t free_bytes);

  struct Counts {
    std::uint64_t created = 0, reused = 0, refused = 0;  // allocations; `refused` returned null
    std::uint64_t copied = 0;                            // by CopyOf
    std::uint64_t segments = 0, lent = 0;                // at present; used by the space
    std::uint64_t free_bytes = 0;
  };
  Counts counts() const;

  // ---- for Client, on its thread ---------------------------------------------------------------

  // The block was named to the broker once more.
  void Lend(const SharedRegion& block);
  // The hash that this process computed for a payload in a lent block. It is forgotten when the
  // block becomes free.
  void RememberHash(const Payload& payload);
  // A block that begins with `bytes` bytes of this remembered hash; null: there is none.
  Block Find(const PayloadHash& hash, std::uint64_t bytes);
  bool CanLend(const Payload& payload) const;
  // The broker has dropped what was lent the last `count` times, and no client reads it any more...
  void Freed(std::uint64_t id, std::uint64_t count);
  // ... or may still read it, so the block is not written again.
  void Spoilt(std::uint64_t id, std::uint64_t count);
  void Refused(std::uint64_t id);  // the broker cannot open it: its bytes must be sent
  void SessionEnded();             // the loans of the session are unknown now
  // Ids that the broker knows and that will not be used again.
  std::vector<std::uint64_t> TakeDropped();

 private:
  struct Owned;
  // Blocks that were removed, to be unmapped after the lock is released. Blocks are released in
  // destructors, so releasing them allocates nothing.
  class Gone {
   public:
    Gone();
    ~Gone();
    Gone(const Gone&) = delete;
    Gone& operator=(const Gone&) = delete;
    void Add(std::unique_ptr<Owned> owned);

   private:
    std::unique_ptr<Owned> first_;
  };
  using Free = std::multimap<std::uint64_t, Owned*>;
  explicit SharedPool(SharedPoolOptions options);
  struct Size {  // statistics of the blocks of one size
    std::uint64_t blocks = 0;
    std::uint64_t handed = 0;  // how often one was handed out
  };
  std::uint64_t FreeLimit() const;                   // with mutex_
  Owned* Reuse(std::uint64_t bytes, Gone& gone);     // with mutex_
  Owned* AddBlock(std::uint64_t capacity_bytes);     // null: none can be made
  Block Hand(Owned& owned);                          // already counted as a handle
  void ForgetHash(Owned& owned);                     // with mutex_
  void Released(Owned& owned);                       // the last local handle is gone
  void Settle(Owned& owned, Gone& gone);             // with mutex_
  void Remove(Owned& owned, Gone& gone);             // with mutex_
  void Trim(std::uint64_t limit_bytes, Gone& gone);  // with mutex_
  void Unlend(std::uint64_t id, std::uint64_t count, bool spoilt);

  // After the broker refused a block: how many allocations do without a new block, how many of
  // these are left, and how many blocks were made after them.
  struct Pause {
    std::uint64_t length = 0, left = 0, made = 0;
  };
  const SharedPoolOptions options_;
  mutable std::mutex mutex_;
  std::function<std::uint64_t()> free_limit_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Owned>> blocks_;
  // By capacity; of equal ones, the one free for longest first.
  Free free_;
  std::unordered_map<std::uint64_t, Size> sizes_;     // by capacity
  std::unordered_map<std::uint64_t, Owned*> hashed_;  // by the low half of the hash
  std::vector<std::uint64_t> dropped_;                // with room for the ids of all blocks
  std::uint64_t next_id_ = 1;
  Pause pause_;
  Counts counts_;
};

}  // namespace tuplespace
