// SharedPool: memory that results are written to once, in place, and that other processes of this
// host then read without a copy. Give it to a Client; where the broker can open it, payloads in it
// travel as a name (PROTOCOL.md, "Shared memory"), elsewhere as bytes.
//
// A block is a memfd that nobody else can write, shrink or grow. Its life: allocated and written by
// this process, put (from then on it must not be written), free again when this process has dropped
// it and the space and its readers have, too. Free blocks are kept for later allocations, as the
// pages of new ones cost more than copying does, until it shows that they are not needed. All is
// gone with the last process that has it open.
//
// Thread safe, but for what only Client calls.
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
  std::uint64_t segments = 4096;  // at most, and at most half of the files this process may open
  std::uint64_t free_bytes = 256ull << 20;  // most bytes kept for later
};

class SharedPool : public std::enable_shared_from_this<SharedPool> {
 public:
  // Payloads below this are not worth a block: their bytes travel.
  static constexpr std::uint64_t kLeastBytes = 16 << 10;

  using Block = std::shared_ptr<const SharedRegion>;

  static std::shared_ptr<SharedPool> Make(SharedPoolOptions options = {});
  ~SharedPool();
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;

  // At least `bytes`, uninitialised, pages present. Null if there is no memory or no descriptor
  // left, or the broker has lately refused to open more, or it is too small for that, or small and
  // could not be kept when it is free: use other memory then.
  Block Allocate(std::uint64_t bytes);
  // A block with a copy of these bytes, hashed on the way, or `payload` itself where there is no
  // block for it.
  Payload CopyOf(const Payload& payload);

  // How many free bytes may be kept, instead of the options' number; asked whenever a block becomes
  // free, on any thread.
  void SetFreeLimit(std::function<std::uint64_t()> limit);
  // Gives free blocks back to the system until at most so many bytes are free.
  void TrimFree(std::uint64_t free_bytes);

  struct Counts {
    std::uint64_t created = 0, reused = 0, refused = 0;  // allocations; `refused` got null
    std::uint64_t copied = 0;                            // by CopyOf
    std::uint64_t segments = 0, lent = 0;                // now; in use by the space
    std::uint64_t free_bytes = 0;
  };
  Counts counts() const;

  // ---- for Client, on its thread ---------------------------------------------------------------

  // The block was named to the broker once more.
  void Lend(const SharedRegion& block);
  // The hash that this process took of a payload in a lent block. It is forgotten when the block is
  // free.
  void RememberHash(const Payload& payload);
  // A block that begins with so many bytes that have this hash, as remembered; null: there is none.
  Block Find(const PayloadHash& hash, std::uint64_t bytes);
  bool CanLend(const Payload& payload) const;
  // The broker has dropped what came of the last `count` times; nobody reads it any more...
  void Freed(std::uint64_t id, std::uint64_t count);
  // ... or that is not sure: it will not be written again.
  void Spoilt(std::uint64_t id, std::uint64_t count);
  void Refused(std::uint64_t id);  // the broker cannot open it: its bytes have to travel
  void SessionEnded();             // nothing is known any more of what was lent
  // Ids that the broker knew and that will not be used again.
  std::vector<std::uint64_t> TakeDropped();

 private:
  struct Owned;
  explicit SharedPool(SharedPoolOptions options);
  struct Size {  // of blocks
    std::uint64_t blocks = 0;
    std::uint64_t handed = 0;  // times that one was
  };
  std::uint64_t FreeLimit() const;                                               // with mutex_
  Owned* Reuse(std::uint64_t bytes, std::vector<std::unique_ptr<Owned>>& gone);  // with mutex_
  Owned* AddBlock(std::uint64_t capacity_bytes);  // null: there is none
  Block Hand(Owned& owned);                       // which has been counted as a handle
  void ForgetHash(Owned& owned);                  // with mutex_
  void Released(Owned& owned);                    // the last local handle is gone
  void Settle(Owned& owned, std::vector<std::unique_ptr<Owned>>& gone);             // with mutex_
  std::unique_ptr<Owned> Remove(Owned& owned);                                      // with mutex_
  void Trim(std::uint64_t limit_bytes, std::vector<std::unique_ptr<Owned>>& gone);  // with mutex_
  void Unlend(std::uint64_t id, std::uint64_t count, bool spoilt);

  // Since the broker refused a block: how many allocations do without a new one, how many are left
  // of them, and how many blocks were made after them.
  struct Pause {
    std::uint64_t length = 0, left = 0, made = 0;
  };
  const SharedPoolOptions options_;
  mutable std::mutex mutex_;
  std::function<std::uint64_t()> free_limit_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Owned>> blocks_;
  std::multimap<std::uint64_t, Owned*> free_;         // by capacity, of each the longest free first
  std::unordered_map<std::uint64_t, Size> sizes_;     // by capacity
  std::unordered_map<std::uint64_t, Owned*> hashed_;  // by the low half of the hash
  std::vector<std::uint64_t> dropped_;
  std::uint64_t next_id_ = 1;
  Pause pause_;
  Counts counts_;
};

}  // namespace tuplespace
