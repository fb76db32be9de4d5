// Records in the order of their keys, kept in runs of neighbours. So a million records need a
// search among only some ten thousand runs, and a scan reads consecutive memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

namespace tuplespace::internal {

struct Record;
struct KeyRun;

// A record in the order. It refers to the record's key and knows whether the record is stored, so
// that comparisons and scans need not load the record.
struct KeyPlace {
  std::string_view bytes() const { return {data, size}; }

  const char* data = nullptr;
  std::uint32_t size = 0;
  bool stored = false;
  Record* record = nullptr;
};

// Maps to each run a key that is not above the keys of the run, but above those of earlier runs.
// The first run's key is empty.
using KeyRuns = std::map<std::string, KeyRun, std::less<>>;

struct KeyRun {
  static constexpr std::size_t kMost = 32;
  std::size_t CountOf(bool is_stored) const { return is_stored ? stored : count - stored; }

  KeyRuns::iterator self;
  std::size_t count = 0;   // at least 1, except in the first run
  std::size_t stored = 0;  // of `count`
  std::array<KeyPlace, kMost> places;
};

// Does not own the records. Maintains Record::run. Remembers the positions of the last insertions
// of a stored record and of another one, because keys of both kinds often come in sequence: the
// next one belongs directly behind the last one or a few positions further.
class KeyOrder {
 public:
  KeyOrder();
  KeyOrder(const KeyOrder&) = delete;
  KeyOrder& operator=(const KeyOrder&) = delete;

  std::size_t size() const { return size_; }
  std::size_t stored() const { return stored_; }

  // REQUIRES: the record is in no order, and its key is not in this order.
  void Insert(Record* record, bool stored);
  // REQUIRES: the record is in this order, and is stored or not, as it was not before.
  void SetStored(Record* record, bool stored);
  // REQUIRES: the record is in this order.
  void Erase(Record* record);

  bool IsConsistent() const;

  // Calls f(const KeyPlace&) for records that are stored, or for those that are not, in order,
  // beginning with the first key that is not below `first`, until it returns false. A run without
  // such a record is passed over at once, which costs about as much as a record: `f` gets its first
  // place, so that it can count it. `f` must not change the order.
  template <typename F>
  void ScanFrom(std::string_view first, bool stored, F f) const {
    auto run = std::prev(runs_.upper_bound(first));
    for (std::size_t at = LowerBound(run->second, first); run != runs_.end(); ++run, at = 0) {
      const bool has_any = run->second.CountOf(stored) > 0;
      for (; at < run->second.count; ++at) {
        const KeyPlace& place = run->second.places[at];
        if (has_any && place.stored != stored) continue;
        if (!f(place)) return;
        if (!has_any) break;
      }
    }
  }

 private:
  struct Spot {
    KeyRun* run = nullptr;
    std::size_t at = 0;
  };

  static std::size_t LowerBound(const KeyRun& run, std::string_view key_bytes);
  static std::size_t IndexOf(const KeyRun& run, const Record* record);
  static void InsertAt(KeyRun* run, std::size_t at, const KeyPlace& place);
  // The position of the key, if that is directly behind `last` or a few positions further.
  bool FindNear(const Spot& last, std::string_view key_bytes, Spot* spot) const;
  Spot Find(std::string_view key_bytes, const Spot& last);
  KeyRun* NewRunBehind(KeyRun* run, std::string_view from);
  Spot MakeRoom(Spot spot, std::string_view key_bytes);
  void JoinWithNext(KeyRun* run);

  KeyRuns runs_;
  std::size_t size_ = 0;
  std::size_t stored_ = 0;
  std::array<Spot, 2> last_;  // of records that were not stored, and that were; run null: none
};

}  // namespace tuplespace::internal
