// All records by key: hashed for single keys, ordered for ranges. Owns the records.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "key_encoding.h"
#include "space_records.h"

namespace tuplespace::internal {

class Store {
 public:
  Store();
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  std::size_t size() const { return size_; }  // records of every state
  std::size_t stored() const { return stored_.size(); }

  Record* Find(std::string_view key_bytes) const;
  // REQUIRES: the key has no record. The record is kWanted.
  Record* Add(Key key);
  Record* FindOrAdd(const Key& key);

  // Moves the record among those that are stored, or away from them. The caller sets the state.
  void Show(Record* record);
  void Hide(Record* record);

  // Destroys the record if it is neither stored nor remembered nor referenced.
  void EraseIfUnused(Record* record);

  // Calls f(Record*) for stored records that match, in key order, until it returns false.
  // `f` must not add, show, hide or erase.
  template <typename F>
  void ScanStored(const Pattern& pattern, F f) const {
    Scan(stored_, pattern, f);
  }
  // As ScanStored, for those that are wanted or completed.
  template <typename F>
  void ScanShadows(const Pattern& pattern, F f) const {
    Scan(shadows_, pattern, f);
  }

 private:
  struct ByKey {
    using is_transparent = void;
    bool operator()(const Record* a, const Record* b) const { return a->key < b->key; }
    bool operator()(const Record* a, std::string_view b) const {
      return std::string_view(a->key.bytes()) < b;
    }
  };
  using Ordered = std::set<Record*, ByKey>;

  // Keys that can match lie from `first` on, as long as they do not sort above all that begin with
  // `last`.
  struct Range {
    std::string first;
    std::string last;
  };
  static Range RangeOf(const Pattern& pattern);

  template <typename F>
  static void Scan(const Ordered& records, const Pattern& pattern, F& f) {
    const Range range = RangeOf(pattern);
    KeySplit split;
    for (auto at = records.lower_bound(std::string_view(range.first)); at != records.end(); ++at) {
      const std::string_view bytes = (*at)->key.bytes();
      if (bytes.compare(0, range.last.size(), range.last) > 0) return;
      if (SplitKey(bytes, &split) && PatternMatches(pattern, bytes, split) && !f(*at)) return;
    }
  }

  void Grow();

  std::vector<Record*> buckets_;
  std::size_t size_ = 0;
  Ordered stored_;
  Ordered shadows_;
};

}  // namespace tuplespace::internal
