// DeviceCache: the tuples that a handler's device keeps between tasks, as bytes and keys: tiles
// that the next step reads, and results whose bytes are nowhere else (owed). Pure; a part of
// HandlerCore.
//
//   entry     pins   may go
//   plain     0      at any time (cache_eviction.h)
//   plain     > 0    when no task uses it any more
//   owed      any    when its bytes have left, or no client needs them or can get them any more
//                    (owed_results.h)
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
#include <string>
#include <utility>

#include "acan/handler/handler_events.h"
#include "acan/handler/step_actions.h"
#include "tuplespace/key.h"

namespace acan {

class DeviceCache {
 public:
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
    // Whether the space should know that it is held here.
    bool IsAnnounced() const { return !doomed && !awaiting; }
    // Whether it goes if the space refuses this flight's results. What is owed is released when no
    // client needs it.
    bool GoesWith(FlightId refused) const { return maker == refused && !owed; }
  };
  // No table here is hashed, as managers choose the keys: many that have the same hash would be
  // slow to find.
  using Entries = std::map<tuplespace::Key, Entry>;

  // An entry that is pinned. Valid until it is unpinned or taken.
  class Pinned {
   public:
    std::uint64_t bytes() const { return at_->second.bytes; }

    // The entry's bytes are a result of this flight; no task may use them before Accept.
    void AwaitAnswer(FlightId maker) const;
    // The space has accepted the results of this flight.
    void Accept(FlightId maker) const;
    // The space has not answered, and will not: as DeviceCache::Refuse.
    void EndAwaiting(FlightId maker, StepActions& out) const;
    // Its bytes are nowhere else.
    void Owe() const;

   private:
    friend class DeviceCache;
    explicit Pinned(Entries::iterator at) : at_(at) {}

    Entries::iterator at_;
  };

  DeviceCache() = default;
  DeviceCache(const DeviceCache&) = delete;
  DeviceCache& operator=(const DeviceCache&) = delete;

  const Entries& entries() const { return entries_; }
  bool Contains(const tuplespace::Key& key) const { return entries_.contains(key); }
  // Whether a task may use the entry. False: it is not here, was forgotten, or awaits an answer.
  bool MayUse(const tuplespace::Key& key) const;
  // Whether no newer version is here.
  bool IsNewest(const tuplespace::Key& key) const;
  // Of all entries.
  std::uint64_t bytes() const { return bytes_; }
  // Of the entries that cannot go now because they are used or owed.
  std::uint64_t held_bytes() const { return held_bytes_; }

  // Adds an entry that nothing uses yet. It replaces the version that was the newest one. If the
  // entry is here already, it only becomes the newest one, and counts as used now. REQUIRES: then
  // it has the same size.
  void Add(const KeptResult& kept, std::int64_t now_us, StepActions& out);
  // The same, and pins it. Returns also whether it is new.
  std::pair<Pinned, bool> AddPinned(const KeptResult& kept, std::int64_t now_us, StepActions& out);
  // Adds an entry that a later step will need. It replaces an older version when it is first used.
  // REQUIRES: it is not here.
  void AddAhead(const tuplespace::Key& key, std::uint64_t bytes, std::int64_t now_us);
  // Pins the entry; nullopt: no task may use it. Each pin ends with Unpin or Take.
  std::optional<Pinned> PinIfUsable(const tuplespace::Key& key, std::int64_t now_us,
                                    StepActions& out);
  void Unpin(const Pinned& pinned, std::int64_t now_us, StepActions& out);
  // Removes an entry that only the caller has pinned. False: it must stay.
  bool Take(const Pinned& pinned, StepActions& out);

  // The entry has no bytes, or wrong ones: it goes with its last pin. REQUIRES: it is not owed.
  void Forget(const tuplespace::Key& key, StepActions& out);
  // The space has not accepted this flight's result: forgets it, unless the entry is owed, or its
  // bytes are not those of the flight.
  void Refuse(const tuplespace::Key& key, FlightId maker, StepActions& out);
  // The entry's bytes have left, or cannot. REQUIRES: it is owed.
  void EndOwed(const tuplespace::Key& key);
  // No client needs the entry any more. REQUIRES: it is owed.
  void Release(const tuplespace::Key& key, StepActions& out);
  // REQUIRES: it is not held.
  void Drop(Entries::const_iterator at, StepActions& out);

 private:
  Pinned Pin(Entries::iterator at, std::int64_t now_us);
  // Returns the entry, and whether it is new.
  std::pair<Entries::iterator, bool> Insert(const tuplespace::Key& key, std::uint64_t bytes,
                                            std::int64_t now_us);
  void BecomeNewest(Entries::iterator at, StepActions& out);
  void Forget(Entries::iterator at, StepActions& out);
  static void ForgetPinned(Entries::iterator at, StepActions& out);
  void EndOwed(Entry& entry);
  void Erase(Entries::const_iterator at, StepActions& out);

  Entries entries_;
  std::map<std::string, Entries::iterator> newest_;  // by the key without the step
  std::uint64_t bytes_ = 0;
  std::uint64_t held_bytes_ = 0;
};

}  // namespace acan
