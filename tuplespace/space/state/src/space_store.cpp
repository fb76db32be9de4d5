#include "space_store.h"

#include <cassert>
#include <utility>

#include "key_encoding.h"

namespace tuplespace::internal {

Store::~Store() {
  for (const Slot& slot : slots_) delete slot.record;
}

Record* Store::Find(std::string_view key_bytes) const {
  return Find(key_bytes, HashOf(key_bytes));
}

Record* Store::Find(std::string_view key_bytes, std::size_t hash) const {
  for (std::size_t at = Home(hash); slots_[at].record != nullptr; at = Next(at)) {
    const Slot& slot = slots_[at];
    if (slot.hash == hash && slot.record->key.bytes() == key_bytes) return slot.record;
  }
  return nullptr;
}

Record* Store::Add(Key key, std::size_t hash, bool stored) {
  assert(!key.empty());
  if (4 * (size_ + 1) > 3 * slots_.size()) Grow();
  auto* record = new Record(std::move(key));
  record->hash = hash;
  Place({record->hash, record});
  ++size_;
  order_.Insert(record, stored);
  return record;
}

Record* Store::FindOrAdd(const Key& key) {
  const std::size_t hash = HashOf(key.bytes());
  Record* record = Find(key.bytes(), hash);
  return record != nullptr ? record : Add(key, hash, /*stored=*/false);
}

Record* Store::AddShown(Key key, std::size_t hash) {
  return Add(std::move(key), hash, /*stored=*/true);
}

void Store::Show(Record* record) {
  order_.SetStored(record, true);
}

void Store::Hide(Record* record) {
  if (IsUsed(*record)) {
    order_.SetStored(record, false);
  } else {
    Destroy(record);
  }
}

bool Store::IsUsed(const Record& record) {
  return record.state != RecordState::kWanted || record.referenced();
}

void Store::EraseIfUnused(Record* record) {
  if (!IsUsed(*record)) Destroy(record);
}

void Store::Destroy(Record* record) {
  assert(record->entries.empty() && record->holders.empty() && !record->lease);
  order_.Erase(record);
  std::size_t at = Home(record->hash);
  while (slots_[at].record != record) at = Next(at);
  Free(at);
  --size_;
  delete record;
}

void Store::Place(const Slot& slot) {
  std::size_t at = Home(slot.hash);
  while (slots_[at].record != nullptr) at = Next(at);
  slots_[at] = slot;
}

// Moves up entries that could not be found behind the free slot.
void Store::Free(std::size_t slot) {
  for (std::size_t at = Next(slot); slots_[at].record != nullptr; at = Next(at)) {
    const std::size_t steps_from_home = (at - Home(slots_[at].hash)) & (slots_.size() - 1);
    const std::size_t steps_from_slot = (at - slot) & (slots_.size() - 1);
    if (steps_from_home < steps_from_slot) continue;
    slots_[slot] = slots_[at];
    slot = at;
  }
  slots_[slot] = {};
}

void Store::Grow() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots_.size() * 2));
  for (const Slot& slot : old) {
    if (slot.record != nullptr) Place(slot);
  }
}

Store::Range Store::RangeOf(const Pattern& pattern) {
  Range range;
  range.first = range.last = pattern.ExactPrefixBytes();
  for (const FieldPattern& field : pattern.fields) {
    if (field.op == FieldPattern::Op::kExact) {
      ++range.exact_fields;
      range.exact_bytes += FieldBytes(ViewOf(field.value));
      continue;
    }
    std::string* end = field.op == FieldPattern::Op::kAtMost    ? &range.last
                       : field.op == FieldPattern::Op::kAtLeast ? &range.first
                                                                : nullptr;
    if (end != nullptr) {
      end->pop_back();  // AppendField writes the tag again
      AppendField(field.value, end);
    }
    break;
  }
  return range;
}

bool Store::IsMatch(const Pattern& pattern, const Range& range, std::string_view key_bytes) {
  std::size_t begin = range.exact_bytes;
  for (std::size_t i = range.exact_fields; i < pattern.fields.size(); ++i) {
    const std::size_t end = FieldEnd(key_bytes, begin);
    if (end == std::string_view::npos) return false;
    if (!FieldMatches(pattern.fields[i], key_bytes.substr(begin, end - begin))) return false;
    begin = end;
  }
  return pattern.open || begin == key_bytes.size();
}

}  // namespace tuplespace::internal
