// DeviceCache: the tuples that a handler's device keeps between tasks, as bytes and keys: tiles
// that the next step reads, and results whose bytes are nowhere else (owed). Pure; a part of
// HandlerCore.
//
//   entry     pins   may go
//   plain     0      at any time, the coldest first
//   plain     > 0    when no task uses it any more
//   owed      any    when its bytes have left, or no client needs them or can get them any more
//
// Every entry's bytes count once here, and not in the tasks that use it.
//
// An entry may be a result of a flight whose put the space has not answered yet. It takes room like
// others, and if it is owed its bytes may leave. For tasks, and for what is announced, it is not
// here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "acan/handler/handler_events.h"
#include "tuplespace/key.h"

namespace acan {

class DeviceCache {
  struct Entry {
    std::uint64_t bytes = 0;
    int pins = 0;
    bool newest = false;     // the one in newest_
    bool doomed = false;     // superseded while pinned: goes with its last pin
    bool forgotten = false;  // doomed, and no further task may use it
    bool owed = false;
    bool ahead = false;     // fetched ahead and not used yet
    bool awaiting = false;  // the space has not answered its maker's put yet
    FlightId maker = 0;     // whose result the bytes are; 0: they came from the space
    std::int64_t last_used_us = 0;

    bool IsHeld() const { return pins > 0 || owed; }
    bool MayBeUsed() const { return !forgotten && !awaiting; }
  };
  using Iterator = std::map<tuplespace::Key, Entry>::iterator;

 public:
  using Actions = std::vector<HandlerAction>;

  // An entry that is pinned. Valid until it is unpinned or taken.
  class Pinned {
   public:
    const tuplespace::Key& key() const { return at_->first; }
    std::uint64_t bytes() const { return at_->second.bytes; }

   private:
    friend class DeviceCache;
    explicit Pinned(Iterator at) : at_(at) {}

    Iterator at_;
  };

  DeviceCache() = default;
  DeviceCache(const DeviceCache&) = delete;
  DeviceCache& operator=(const DeviceCache&) = delete;

  bool Contains(const tuplespace::Key& key) const { return entries_.contains(key); }
  std::uint64_t BytesOf(const tuplespace::Key& key) const { return entries_.at(key).bytes; }
  // Of all entries.
  std::uint64_t bytes() const { return bytes_; }
  // Of the entries that cannot go now because they are used or owed.
  std::uint64_t held_bytes() const { return held_bytes_; }
  // Of the owed entries.
  std::uint64_t owed_bytes() const { return owed_bytes_; }

  // Adds an entry that nothing uses yet. It replaces the version that was the newest one. If the
  // entry is here already, it only becomes the newest one, and counts as used now. REQUIRES: then
  // it has the same size.
  void Add(const KeptResult& kept, std::int64_t now_us, Actions& out);
  // The same, and pins it. Returns also whether it is new.
  std::pair<Pinned, bool> AddPinned(const KeptResult& kept, std::int64_t now_us, Actions& out);
  // Adds an entry that a later step will need. It replaces an older version when it is first used.
  // REQUIRES: it is not here.
  void AddAhead(const tuplespace::Key& key, std::uint64_t bytes, std::int64_t now_us);
  // The entry's bytes are a result of this flight; no task may use them before Accept.
  static void AwaitAnswer(const Pinned& pinned, FlightId maker);
  // The space has accepted the results of this flight.
  static void Accept(const Pinned& pinned, FlightId maker);
  // The space has not accepted this flight's result: forgets it, unless the entry is owed, or its
  // bytes are not those of the flight.
  void Refuse(const tuplespace::Key& key, FlightId maker, Actions& out);
  // The same if the space has not answered, and will not.
  void EndAwaiting(const Pinned& pinned, FlightId maker, Actions& out);
  // Whether a task may use the entry. False: it is not here, was forgotten, or awaits an answer.
  bool MayUse(const tuplespace::Key& key) const;
  // Whether no newer version is here.
  bool IsNewest(const tuplespace::Key& key) const;
  // Pins the entry; nullopt: no task may use it. Each pin ends with Unpin or Take.
  std::optional<Pinned> PinIfUsable(const tuplespace::Key& key, std::int64_t now_us, Actions& out);
  void Unpin(const Pinned& pinned, std::int64_t now_us, Actions& out);
  // The entry has no bytes, or wrong ones: it goes with its last pin. REQUIRES: it is not owed.
  void Forget(const tuplespace::Key& key, Actions& out);
  // Removes an entry that only the caller has pinned. False: it must stay.
  bool Take(const Pinned& pinned);
  // The space does not know yet that the entry is held.
  void AnnounceHeld(const tuplespace::Key& key) { newly_held_.push_back(key); }
  // The space believes that the entry is held, but it is not.
  void AnnounceDropped(const tuplespace::Key& key) { newly_dropped_.push_back(key); }
  void AnnounceAll();
  // The changes since the last call.
  void FlushHolds(Actions& out);

  // ---- what goes
  // Drops what earlier steps left when a task of a later step is here; `input` is that task's first
  // input.
  void DropOlder(const tuplespace::Key& input, Actions& out);
  // Drops entries that were not used for long. To be called at NextCheckUs() or later.
  void DropCold(std::int64_t now_us, Actions& out);
  std::int64_t NextCheckUs() const;
  // Drops the coldest entries until the rest has at most this many bytes. REQUIRES: held_bytes() <=
  // most_bytes.
  void ShrinkTo(std::uint64_t most_bytes, Actions& out);

  // ---- what is owed
  void AddOwed(const Pinned& pinned);
  // The entry's bytes have left, or cannot. False: it was not owed.
  bool EndOwed(const tuplespace::Key& key);
  // No client needs the entry any more.
  void Release(const tuplespace::Key& key, Actions& out);
  // Releases all other owed entries, which the space has forgotten. All supplies have ended.
  void ReleaseAllBut(const std::set<tuplespace::Key>& keys, Actions& out);
  // Whether to supply the entry now: it is owed, and its supply is not in progress.
  bool BeginSupply(const tuplespace::Key& key);
  void EndSupply(const tuplespace::Key& key);  // without success
  // The same after a failure: SupplySome skips the entry. False: its supply was not in progress.
  bool FailSupply(const tuplespace::Key& key);
  void SupplyFailedAgain(Actions& out);
  void SupplyAll(Actions& out);
  // Until at least this many bytes are being supplied.
  void SupplySome(std::uint64_t enough_bytes, Actions& out);
  bool IsSupplying() const { return under_way_ > 0; }
  bool OwesNothing() const { return owed_.empty(); }
  bool HasFailedSupplies() const { return failed_ > 0; }
  bool OwesWhatWasNotTried() const { return under_way_ + failed_ < owed_.size(); }

 private:
  // The supply of an entry that is owed.
  enum class Supply : std::uint8_t { kNone, kUnderWay, kFailed };

  Pinned Pin(Iterator at, std::int64_t now_us);
  // Returns the entry, and whether it is new.
  std::pair<Iterator, bool> Insert(const tuplespace::Key& key, std::uint64_t bytes,
                                   std::int64_t now_us);
  void BecomeNewest(Iterator at, Actions& out);
  void Refuse(Iterator at, FlightId maker, Actions& out);
  void Forget(Iterator at, Actions& out);
  void Change(Supply& supply, Supply next);
  // Returns whether the supply was not in progress yet; it is now.
  bool Begin(Supply& supply);
  void Remove(Iterator at, Actions& out);
  void Erase(Iterator at);

  // No table here is hashed, as managers choose the keys: many that have the same hash would be
  // slow to find.
  std::map<tuplespace::Key, Entry> entries_;
  std::map<std::string, Iterator> newest_;  // by the key without the step
  std::uint64_t bytes_ = 0;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t owed_bytes_ = 0;
  std::map<tuplespace::Key, Supply> owed_;  // entries
  std::size_t under_way_ = 0, failed_ = 0;  // supplies; needed after every event
  std::optional<tuplespace::Key> step_;     // of the latest task
  std::int64_t cold_check_us_ = 0;          // when to look for entries that were not used for long
  std::vector<tuplespace::Key> newly_held_, newly_dropped_;
};

}  // namespace acan
