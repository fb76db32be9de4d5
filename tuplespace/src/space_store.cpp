#include "space_store.h"

#include <cassert>
#include <functional>
#include <utility>

namespace tuplespace::internal {
namespace {

constexpr std::size_t kFirstBuckets = 1024;

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

Record* Store::Add(Key key) {
  assert(!key.empty());
  if (size_ >= buckets_.size()) Grow();
  auto* record = new Record(std::move(key));
  record->hash = HashOf(record->key.bytes());
  Record*& bucket = buckets_[record->hash & (buckets_.size() - 1)];
  record->next_in_bucket = std::exchange(bucket, record);
  ++size_;
  shadows_.insert(record);
  return record;
}

Record* Store::FindOrAdd(const Key& key) {
  Record* record = Find(key.bytes());
  return record != nullptr ? record : Add(key);
}

void Store::Show(Record* record) {
  auto node = shadows_.extract(record);
  assert(!node.empty());
  stored_.insert(std::move(node));
}

void Store::Hide(Record* record) {
  auto node = stored_.extract(record);
  assert(!node.empty());
  shadows_.insert(std::move(node));
}

void Store::EraseIfUnused(Record* record) {
  if (record->state != RecordState::kWanted || record->referenced()) return;
  assert(record->entries.empty() && record->holders.empty() && !record->lease);
  Record** at = &buckets_[record->hash & (buckets_.size() - 1)];
  while (*at != record) at = &(*at)->next_in_bucket;
  *at = record->next_in_bucket;
  --size_;
  shadows_.erase(record);
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
