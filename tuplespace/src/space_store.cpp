#include "space_store.h"

#include <cassert>
#include <functional>
#include <iterator>
#include <utility>

namespace tuplespace::internal {
namespace {

constexpr std::size_t kFirstBuckets = 1024;
constexpr int kMaxHintSteps = 3;

std::size_t HashOf(std::string_view key_bytes) {
  return std::hash<std::string_view>{}(key_bytes);
}

}  // namespace

Store::Store() : buckets_(kFirstBuckets, nullptr) {}

Store::~Store() {
  for (Record* record : buckets_) {
    while (record != nullptr) delete std::exchange(record, record->next_in_bucket);
  }
}

Record* Store::Find(std::string_view key_bytes) const {
  const std::size_t hash = HashOf(key_bytes);
  Record* record = buckets_[hash & (buckets_.size() - 1)];
  while (record != nullptr && (record->hash != hash || record->key.bytes() != key_bytes)) {
    record = record->next_in_bucket;
  }
  return record;
}

Record* Store::Add(Key key, Ordered* order) {
  assert(!key.empty());
  if (size_ >= buckets_.size()) Grow();
  auto* record = new Record(std::move(key));
  record->hash = HashOf(record->key.bytes());
  Record*& bucket = buckets_[record->hash & (buckets_.size() - 1)];
  record->next_in_bucket = std::exchange(bucket, record);
  ++size_;
  order->Insert(record);
  return record;
}

Record* Store::FindOrAdd(const Key& key) {
  Record* record = Find(key.bytes());
  return record != nullptr ? record : Add(key);
}

void Store::Show(Record* record) {
  stored_.Insert(shadows_.Extract(record));
}

void Store::Hide(Record* record) {
  shadows_.Insert(stored_.Extract(record));
}

// Keys come in runs, so the place is often right behind the last one, or a few further.
OrderedRecords::iterator Store::Ordered::HintFor(std::string_view key_bytes) {
  for (int steps = 0; steps < kMaxHintSteps && next != records.end(); ++steps) {
    if (key_bytes < next->bytes) break;
    ++next;
  }
  return next;
}

void Store::Ordered::Insert(Record* record) {
  const std::size_t before = records.size();
  const KeyPlace place{record->key.bytes(), record};
  record->place = records.insert(HintFor(place.bytes), place);
  assert(records.size() == before + 1);
  static_cast<void>(before);
  next = std::next(record->place);
}

void Store::Ordered::Insert(OrderedRecords::node_type node) {
  assert(!node.empty());
  const KeyPlace place = node.value();
  place.record->place = records.insert(HintFor(place.bytes), std::move(node));
  assert(place.record->place->record == place.record);
  next = std::next(place.record->place);
}

OrderedRecords::node_type Store::Ordered::Extract(Record* record) {
  Forget(record->place);
  return records.extract(record->place);
}

void Store::Ordered::Erase(Record* record) {
  Forget(record->place);
  records.erase(record->place);
}

void Store::Ordered::Forget(OrderedRecords::iterator place) {
  assert(place != records.end());
  if (next == place) ++next;
}

void Store::EraseIfUnused(Record* record) {
  if (record->state != RecordState::kWanted || record->referenced()) return;
  assert(record->entries.empty() && record->holders.empty() && !record->lease);
  Record** at = &buckets_[record->hash & (buckets_.size() - 1)];
  while (*at != record) at = &(*at)->next_in_bucket;
  *at = record->next_in_bucket;
  --size_;
  shadows_.Erase(record);
  delete record;
}

void Store::Grow() {
  std::vector<Record*> grown(buckets_.size() * 2, nullptr);
  for (Record* record : buckets_) {
    while (record != nullptr) {
      Record* next = record->next_in_bucket;
      Record*& bucket = grown[record->hash & (grown.size() - 1)];
      record->next_in_bucket = std::exchange(bucket, record);
      record = next;
    }
  }
  buckets_ = std::move(grown);
}

Store::Range Store::RangeOf(const Pattern& pattern) {
  Range range;
  range.first = range.last = pattern.ExactPrefixBytes();
  for (const FieldPattern& field : pattern.fields) {
    if (field.op == FieldPattern::Op::kExact) continue;
    std::string* end = field.op == FieldPattern::Op::kAtMost    ? &range.last
                       : field.op == FieldPattern::Op::kAtLeast ? &range.first
                                                                : nullptr;
    if (end != nullptr) {
      end->pop_back();  // the tag, which AppendField writes again
      AppendField(field.value, end);
    }
    break;
  }
  return range;
}

}  // namespace tuplespace::internal
