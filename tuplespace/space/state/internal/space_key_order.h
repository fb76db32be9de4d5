// Records in the order of their keys, stored in runs of neighbours. So a million records need a
// search among only some ten thousand runs, and a scan reads consecutive memory.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

namespace tuplespace::internal {

struct Record;
struct KeyRun;

// A record in the order. The view lets comparisons do without loading the record.
struct KeyPlace {
  std::string_view bytes;
  Record* record = nullptr;
};

// Maps to each run a key that is not above the keys of the run, but above those of earlier runs.
// The first run's key is empty.
using KeyRuns = std::map<std::string, KeyRun, std::less<>>;

struct KeyRun {
  static constexpr std::size_t kMost = 32;
  KeyRuns::iterator self;
  std::size_t count = 0;  // at least 1, except in the first run
  std::array<KeyPlace, kMost> places;
};

// Does not own the records. Maintains Record::run. Remembers the position of the last insertion,
// because keys often come in sequence: the next one belongs directly behind it or a few positions
// further.
class KeyOrder {
 public:
  KeyOrder();
  KeyOrder(const KeyOrder&) = delete;
  KeyOrder& operator=(const KeyOrder&) = delete;

  std::size_t size() const { return size_; }

  // REQUIRES: the record is in no order, and its key is not in this order.
  void Insert(Record* record);
  // REQUIRES: the record is in this order.
  void Erase(Record* record);

  bool IsConsistent() const;

  // Calls f(const KeyPlace&) in order, beginning with the first key that is not below `first`,
  // until it returns false. `f` must not insert or erase.
  template <typename F>
  void ScanFrom(std::string_view first, F f) const {
    auto run = std::prev(runs_.upper_bound(first));
    for (std::size_t at = LowerBound(run->second, first); run != runs_.end(); ++run, at = 0) {
      for (; at < run->second.count; ++at) {
        if (!f(run->second.places[at])) return;
      }
    }
  }

 private:
  struct Spot {
    KeyRun* run = nullptr;
    std::size_t at = 0;
  };

  static std::size_t LowerBound(const KeyRun& run, std::string_view key_bytes);
  static void InsertAt(KeyRun* run, std::size_t at, const KeyPlace& place);
  // The position of the key, if that is directly behind the last insertion or a few positions
  // further.
  bool FindNearLast(std::string_view key_bytes, Spot* spot) const;
  Spot Find(std::string_view key_bytes);
  KeyRun* NewRunBehind(KeyRun* run, std::string_view from);
  Spot MakeRoom(Spot spot, std::string_view key_bytes);
  void JoinWithNext(KeyRun* run);

  KeyRuns runs_;
  std::size_t size_ = 0;
  Spot last_;  // run null: there is none
};

}  // namespace tuplespace::internal
