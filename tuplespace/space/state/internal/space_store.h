// All records by key: hashed for single keys, ordered for ranges. Owns the records.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "space_key_hash.h"
#include "space_key_order.h"
#include "space_records.h"

namespace tuplespace::internal {

class Store {
 public:
  // `hash` must outlive it.
  explicit Store(const KeyHash& hash) : hash_(hash), slots_(kFirstSlots) {}
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  std::size_t size() const { return size_; }  // the number of records in any state
  std::size_t stored() const { return order_.stored(); }

  Record* Find(std::string_view key_bytes) const;
  // As Find, with a hash that the caller has computed already.
  std::size_t HashOf(std::string_view key_bytes) const { return hash_(key_bytes); }
  Record* Find(std::string_view key_bytes, std::size_t hash) const;
  // A record that is added has the state kWanted.
  Record* FindOrAdd(const Key& key);

  // The record counts as stored from now on, or no longer. The caller sets the state. AddShown
  // REQUIRES: the key has no record; `hash` is the key's hash.
  Record* AddShown(Key key, std::size_t hash);
  void Show(Record* record);
  // Also destroys the record if it is unused, as EraseIfUnused does.
  void Hide(Record* record);

  // Destroys the record if it is neither stored nor remembered nor referenced.
  void EraseIfUnused(Record* record);

  bool IsConsistent() const { return order_.IsConsistent() && order_.size() == size_; }

  // Calls f(Record*) for each stored record that matches, in key order, until it returns false.
  // Returns how many records were examined. `f` must not add, show, hide or erase.
  template <typename F>
  std::uint64_t ScanStored(const Pattern& pattern, F f) const {
    return Scan(pattern, true, f);
  }
  // As ScanStored, but examines at most `*most` records, matching or not, beginning with the key
  // `*next` (empty: the first). Subtracts 1 from `*most` for each. False: there are more, from
  // `*next` on.
  template <typename F>
  bool ScanSome(const Pattern& pattern, std::uint64_t* most, std::string* next, F f) const {
    const Range range = RangeOf(pattern);
    bool all = true;
    order_.ScanFrom(std::max(range.first, *next), true, [&](const KeyPlace& place) {
      if (place.bytes.compare(0, range.last.size(), range.last) > 0) return false;
      if (*most == 0) {
        all = false;
        *next = place.bytes;
        return false;
      }
      --*most;
      return !IsMatch(pattern, range, place.bytes) || f(place.record);
    });
    return all;
  }
  // As ScanStored, for records in the states kWanted and kDone.
  template <typename F>
  std::uint64_t ScanShadows(const Pattern& pattern, F f) const {
    return Scan(pattern, false, f);
  }

 private:
  // Keys that can match begin at `first` and end before the first key that is above every key with
  // the prefix `last`. All of them begin with the fields that the pattern begins with, if those are
  // exact.
  struct Range {
    std::string first;
    std::string last;
    std::size_t exact_fields = 0;  // so many fields, which take
    std::size_t exact_bytes = 0;   // so many bytes
  };
  static Range RangeOf(const Pattern& pattern);
  // Whether this key in the pattern's range matches the pattern.
  static bool IsMatch(const Pattern& pattern, const Range& range, std::string_view key_bytes);

  template <typename F>
  std::uint64_t Scan(const Pattern& pattern, bool stored, F& f) const {
    const Range range = RangeOf(pattern);
    std::uint64_t examined = 0;
    order_.ScanFrom(range.first, stored, [&](const KeyPlace& place) {
      if (place.bytes.compare(0, range.last.size(), range.last) > 0) return false;
      ++examined;
      return !IsMatch(pattern, range, place.bytes) || f(place.record);
    });
    return examined;
  }

  static constexpr std::size_t kFirstSlots = 1024;

  // One slot of the hash table. The stored hash avoids loading records with other keys.
  struct Slot {
    std::size_t hash = 0;
    Record* record = nullptr;  // null: free
  };

  Record* Add(Key key, std::size_t hash, bool stored);
  static bool IsUsed(const Record& record);
  void Destroy(Record* record);
  std::size_t Home(std::size_t hash) const { return hash & (slots_.size() - 1); }
  std::size_t Next(std::size_t slot) const { return (slot + 1) & (slots_.size() - 1); }
  void Place(const Slot& slot);
  void Free(std::size_t slot);
  void Grow();

  const KeyHash& hash_;
  std::vector<Slot> slots_;  // open addressing, linear probing, at most three quarters full
  std::size_t size_ = 0;
  KeyOrder order_;
};

}  // namespace tuplespace::internal
