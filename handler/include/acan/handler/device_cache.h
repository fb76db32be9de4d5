// DeviceCache: what a handler's device keeps between tasks, as bytes and keys: tiles that the next
// step reads, and results whose bytes nobody else has (owed). Pure; a part of HandlerCore.
//
//   entry     pins   may go
//   plain     0      at any time, the coldest first
//   plain     > 0    when no task uses it any more
//   owed      any    when its bytes have left, or nobody needs them or can have them any more
//
// Every entry's bytes count once here, and in no task that uses it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "acan/handler/handler_events.h"
#include "tuplespace/key.h"

namespace acan {

class DeviceCache {
 public:
  using Actions = std::vector<HandlerAction>;

  bool Contains(const tuplespace::Key& key) const { return entries_.contains(key); }
  std::uint64_t BytesOf(const tuplespace::Key& key) const { return entries_.at(key).bytes; }
  // Of all entries.
  std::uint64_t bytes() const { return bytes_; }
  // Of those that cannot go now: they are used, or owed.
  std::uint64_t held_bytes() const { return held_bytes_; }
  // Of those that are owed.
  std::uint64_t owed_bytes() const { return owed_bytes_; }

  // Adds an entry that nobody uses yet. A newer version takes the place of the older one. False: it
  // was there.
  bool Add(const KeptResult& kept, std::int64_t now_us, Actions& out);
  // What a later step will need. It takes an older version's place when it is first used.
  // REQUIRES: it is not here.
  void AddAhead(const tuplespace::Key& key, std::uint64_t bytes, std::int64_t now_us);
  // Whether no newer version is here.
  bool IsNewest(const tuplespace::Key& key) const;
  // Pins it and says how many bytes it has; none: it is not here.
  std::optional<std::uint64_t> PinIfHere(const tuplespace::Key& key, std::int64_t now_us,
                                         Actions& out);
  // REQUIRES of both: it is here.
  void Pin(const tuplespace::Key& key, std::int64_t now_us);
  void Unpin(const tuplespace::Key& key, std::int64_t now_us, Actions& out);
  // It has no bytes: it goes with its last pin, and nobody is to use it. REQUIRES: it is not owed.
  void Forget(const tuplespace::Key& key, Actions& out);
  // Takes out what only its caller has pinned. False: it must stay.
  bool Take(const tuplespace::Key& key);
  // The space has not heard of it yet.
  void AnnounceHeld(const tuplespace::Key& key) { newly_held_.push_back(key); }
  // What the space believes to be held is not.
  void AnnounceDropped(const tuplespace::Key& key) { newly_dropped_.push_back(key); }
  void AnnounceAll();
  // What changed since it was called last.
  void FlushHolds(Actions& out);

  // ---- what goes
  // What earlier steps left, once a task of a later one is here, whose first input this is.
  void DropOlder(const tuplespace::Key& input, Actions& out);
  // What was not used for long. To be called at NextCheckUs() or later.
  void DropCold(std::int64_t now_us, Actions& out);
  std::int64_t NextCheckUs() const;
  // The coldest, until all has at most so many bytes. REQUIRES: held_bytes() <= most_bytes.
  void ShrinkTo(std::uint64_t most_bytes, Actions& out);

  // ---- what is owed
  // REQUIRES: it is here and pinned.
  void AddOwed(const tuplespace::Key& key);
  // Its bytes have left, or cannot. False: it was not owed.
  bool EndOwed(const tuplespace::Key& key);
  // Nobody needs it any more.
  void Release(const tuplespace::Key& key, Actions& out);
  // The space has lost what it knew of all others. Supplies have ended with that.
  void ReleaseAllBut(const std::unordered_set<tuplespace::Key>& keys, Actions& out);
  // Whether it is to be supplied now: it is owed, and not under way.
  bool BeginSupply(const tuplespace::Key& key);
  void EndSupply(const tuplespace::Key& key);  // without success
  // So, and SupplySome passes it over. False: its supply was not under way.
  bool FailSupply(const tuplespace::Key& key);
  void SupplyFailedAgain(Actions& out);
  void SupplyAll(Actions& out);
  // Until so many bytes, or a few more, are under way.
  void SupplySome(std::uint64_t enough_bytes, Actions& out);
  bool IsSupplying() const { return under_way_ > 0; }
  bool OwesNothing() const { return owed_.empty(); }
  bool HasFailedSupplies() const { return failed_ > 0; }
  bool OwesWhatWasNotTried() const { return under_way_ + failed_ < owed_.size(); }

 private:
  struct Entry {
    std::uint64_t bytes = 0;
    int pins = 0;
    bool doomed = false;  // superseded while pinned: goes with its last pin
    bool owed = false;
    bool ahead = false;  // not used yet
    std::int64_t last_used_us = 0;

    bool IsHeld() const { return pins > 0 || owed; }
  };

  // The supply of an entry that is owed.
  enum class Supply : std::uint8_t { kNone, kUnderWay, kFailed };

  void Pin(Entry& entry, std::int64_t now_us);
  void BecomeNewest(const tuplespace::Key& key, Actions& out);
  void Change(Supply& supply, Supply next);
  // Its supply is under way from now on. False: it was.
  bool Begin(Supply& supply);
  void Remove(const tuplespace::Key& key, Actions& out);
  void Erase(std::map<tuplespace::Key, Entry>::iterator it);

  std::map<tuplespace::Key, Entry> entries_;
  std::unordered_map<std::string, tuplespace::Key> newest_;  // identity without step -> entry
  std::uint64_t bytes_ = 0;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t owed_bytes_ = 0;
  std::map<tuplespace::Key, Supply> owed_;  // entries
  std::size_t under_way_ = 0, failed_ = 0;  // supplies; asked for after every event
  std::optional<tuplespace::Key> step_;     // of the latest task
  std::int64_t cold_check_us_ = 0;          // when to look for what was not used for long
  std::vector<tuplespace::Key> newly_held_, newly_dropped_;
};

}  // namespace acan
