// Records in the order of their keys, kept in runs of neighbours. So a million records need a
// search among only some ten thousand runs, and a scan reads consecutive memory. Each record is
// stored or not. A scan is for one of these kinds, and visits only runs that have any of it.
#pragma once

#include <array>
#include <bit>
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
  using Places = std::uint64_t;  // bit i stands for places[i]
  static Places Before(std::size_t at) { return (Places{1} << at) - 1; }
  Places Of(bool is_stored) const { return is_stored ? stored : Before(count) & ~stored; }

  KeyRuns::iterator self;
  std::size_t count = 0;  // at least 1, except in the first run
  Places stored = 0;
  std::array<KeyPlace, kMost> places;
};

// Does not own the records. Maintains Record::run. Remembers for each kind the position of the last
// insertion, because keys often come in sequence: the next one belongs directly behind it or a few
// positions further.
class KeyOrder {
 public:
  KeyOrder();
  KeyOrder(const KeyOrder&) = delete;
  KeyOrder& operator=(const KeyOrder&) = delete;

  std::size_t size() const { return size_[false] + size_[true]; }
  std::size_t stored() const { return size_[true]; }
  std::size_t runs() const { return runs_.size(); }

  // REQUIRES: the record is in no order, and its key is not in this order.
  void Insert(Record* record, bool stored);
  // REQUIRES: the record is in this order, and `stored` is not what it was.
  void SetStored(Record* record, bool stored);
  // REQUIRES: the record is in this order.
  void Erase(Record* record);

  bool IsConsistent() const;

  // Calls f(const KeyPlace&) for the records that are stored, or for those that are not, in order,
  // beginning with the first key that is not below `first`, until it returns false. `f` must not
  // change the order.
  template <typename F>
  void ScanFrom(std::string_view first, bool stored, F f) const {
    const RunsByKey& runs = having_[stored];
    auto at = runs.upper_bound(first);
    KeyRun::Places passed = 0;
    if (at != runs.begin()) {
      --at;
      passed = KeyRun::Before(LowerBound(*at->second, first));
    }
    for (; at != runs.end(); ++at, passed = 0) {
      const KeyRun& run = *at->second;
      for (auto left = run.Of(stored) & ~passed; left != 0; left &= left - 1) {
        if (!f(run.places[static_cast<std::size_t>(std::countr_zero(left))])) return;
      }
    }
  }

 private:
  struct Spot {
    KeyRun* run = nullptr;
    std::size_t at = 0;
  };
  using RunsByKey = std::map<std::string_view, KeyRun*>;
  using Kinds = std::array<bool, 2>;  // by whether stored: whether a run has any such record

  static std::size_t LowerBound(const KeyRun& run, std::string_view key_bytes);
  static std::size_t IndexOf(const KeyRun& run, const Record* record);
  static Kinds KindsIn(const KeyRun& run);
  // Updates `having_` after a change of the run.
  void NoteKinds(KeyRun* run, const Kinds& before);
  void InsertAt(KeyRun* run, std::size_t at, const KeyPlace& place, bool stored);
  // The position of the key, if that is directly behind `last` or a few positions further.
  bool FindNear(const Spot& last, std::string_view key_bytes, Spot* spot) const;
  Spot Find(std::string_view key_bytes, const Spot& last);
  KeyRun* NewRunBehind(KeyRun* run, std::string_view from);
  Spot MakeRoom(Spot spot, std::string_view key_bytes);
  void MoveTo(KeyRun* run, KeyRun* from, std::size_t begin);
  void JoinWithNext(KeyRun* run);

  KeyRuns runs_;
  // The members below are by whether records are stored.
  std::array<RunsByKey, 2> having_;  // runs that have any such record, by their keys in `runs_`
  std::array<std::size_t, 2> size_{};
  std::array<Spot, 2> last_;  // run null: there is none
};

}  // namespace tuplespace::internal
