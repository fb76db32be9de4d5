// All records by key: hashed for single keys, ordered for ranges. Owns the records.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
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
  std::size_t stored() const { return stored_.records.size(); }

  Record* Find(std::string_view key_bytes) const;
  // REQUIRES: the key has no record. The record is kWanted.
  Record* Add(Key key) { return Add(std::move(key), &shadows_); }
  Record* FindOrAdd(const Key& key);

  // The record counts as stored, or no longer. The caller sets the state.
  // REQUIRES: AddShown: as Add.
  Record* AddShown(Key key) { return Add(std::move(key), &stored_); }
  void Show(Record* record);
  void Hide(Record* record);

  // Destroys the record if it is neither stored nor remembered nor referenced.
  void EraseIfUnused(Record* record);

  // Calls f(Record*) for stored records that match, in key order, until it returns false.
  // `f` must not add, show, hide or erase.
  template <typename F>
  void ScanStored(const Pattern& pattern, F f) const {
    Scan(stored_.records, pattern, f);
  }
  // As ScanStored, for those that are wanted or completed.
  template <typename F>
  void ScanShadows(const Pattern& pattern, F f) const {
    Scan(shadows_.records, pattern, f);
  }

 private:
  // One of the two orders of keys. Remembers where it inserted last: keys come in runs.
  struct Ordered {
    void Insert(Record* record);
    void Insert(OrderedRecords::node_type node);
    OrderedRecords::iterator HintFor(std::string_view key_bytes);
    OrderedRecords::node_type Extract(Record* record);
    void Erase(Record* record);
    void Forget(OrderedRecords::iterator place);

    OrderedRecords records;
    OrderedRecords::iterator next = records.end();  // after the last insertion
  };

  // Keys that can match lie from `first` on, as long as they do not sort above all that begin with
  // `last`.
  struct Range {
    std::string first;
    std::string last;
  };
  static Range RangeOf(const Pattern& pattern);

  template <typename F>
  static void Scan(const OrderedRecords& records, const Pattern& pattern, F& f) {
    const Range range = RangeOf(pattern);
    KeySplit split;
    for (auto at = records.lower_bound(std::string_view(range.first)); at != records.end(); ++at) {
      const std::string_view bytes = at->bytes;
      if (bytes.compare(0, range.last.size(), range.last) > 0) return;
      if (SplitKey(bytes, &split) && PatternMatches(pattern, bytes, split) && !f(at->record))
        return;
    }
  }

  Record* Add(Key key, Ordered* order);
  void Grow();

  std::vector<Record*> buckets_;
  std::size_t size_ = 0;
  Ordered stored_;
  Ordered shadows_;
};

}  // namespace tuplespace::internal
