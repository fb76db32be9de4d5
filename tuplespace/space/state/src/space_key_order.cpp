#include "space_key_order.h"

#include <algorithm>
#include <cassert>
#include <iterator>

#include "space_records.h"

namespace tuplespace::internal {
namespace {

constexpr std::size_t kMaxStepsFromLast = 3;

}  // namespace

KeyOrder::KeyOrder() {
  KeyRun& first = runs_[std::string()];
  first.self = runs_.begin();
}

std::size_t KeyOrder::LowerBound(const KeyRun& run, std::string_view key_bytes) {
  const auto begin = run.places.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(run.count);
  const auto at = std::lower_bound(
      begin, end, key_bytes, [](const KeyPlace& a, std::string_view b) { return a.bytes < b; });
  return static_cast<std::size_t>(at - begin);
}

std::size_t KeyOrder::IndexOf(const KeyRun& run, const Record* record) {
  const auto begin = run.places.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(run.count);
  const auto at =
      std::find_if(begin, end, [record](const KeyPlace& place) { return place.record == record; });
  assert(at != end);
  return static_cast<std::size_t>(at - begin);
}

KeyOrder::Kinds KeyOrder::KindsIn(const KeyRun& run) {
  return {run.Of(false) != 0, run.Of(true) != 0};
}

void KeyOrder::NoteKinds(KeyRun* run, const Kinds& before) {
  const Kinds now = KindsIn(*run);
  if (now == before) return;
  for (const bool stored : {false, true}) {
    if (now[stored] == before[stored]) continue;
    if (now[stored]) {
      having_[stored].emplace(run->self->first, run);
    } else {
      having_[stored].erase(run->self->first);
    }
  }
}

void KeyOrder::InsertAt(KeyRun* run, std::size_t at, const KeyPlace& place, bool stored) {
  assert(run->count < KeyRun::kMost && at <= run->count);
  const Kinds kinds = KindsIn(*run);
  std::copy_backward(run->places.begin() + static_cast<std::ptrdiff_t>(at),
                     run->places.begin() + static_cast<std::ptrdiff_t>(run->count),
                     run->places.begin() + static_cast<std::ptrdiff_t>(run->count + 1));
  run->places[at] = place;
  ++run->count;
  const KeyRun::Places below = KeyRun::Before(at);
  run->stored = (run->stored & below) | ((run->stored & ~below) << 1) |
                (static_cast<KeyRun::Places>(stored) << at);
  place.record->run = run;
  NoteKinds(run, kinds);
}

bool KeyOrder::FindNear(const Spot& last, std::string_view key_bytes, Spot* spot) const {
  KeyRun* run = last.run;
  if (run == nullptr || key_bytes < run->places[last.at].bytes) return false;
  const std::size_t end = std::min(run->count, last.at + 1 + kMaxStepsFromLast);
  for (std::size_t at = last.at + 1; at < end; ++at) {
    if (key_bytes < run->places[at].bytes) {
      *spot = {run, at};
      return true;
    }
  }
  if (end < run->count) return false;
  const auto next = std::next(run->self);
  if (next != runs_.end() && key_bytes >= next->first) return false;
  *spot = {run, run->count};
  return true;
}

KeyOrder::Spot KeyOrder::Find(std::string_view key_bytes, const Spot& last) {
  Spot spot;
  if (FindNear(last, key_bytes, &spot)) return spot;
  KeyRun* run = &std::prev(runs_.upper_bound(key_bytes))->second;
  return {run, LowerBound(*run, key_bytes)};
}

KeyRun* KeyOrder::NewRunBehind(KeyRun* run, std::string_view from) {
  const auto self = runs_.try_emplace(std::next(run->self), std::string(from));
  assert(std::prev(self) == run->self && self->second.count == 0);
  self->second.self = self;
  return &self->second;
}

// Moves the places of `from`, beginning with `begin`, behind those of `run`.
void KeyOrder::MoveTo(KeyRun* run, KeyRun* from, std::size_t begin) {
  const std::size_t had = run->count;
  const Kinds kinds = KindsIn(*from);
  for (std::size_t at = begin; at < from->count; ++at) {
    InsertAt(run, run->count, from->places[at], (from->stored >> at & 1) != 0);
  }
  for (Spot& last : last_) {
    if (last.run == from && last.at >= begin) last = {run, had + last.at - begin};
  }
  from->count = begin;
  from->stored &= KeyRun::Before(begin);
  NoteKinds(from, kinds);
}

// If keys come in ascending order, the full run stays as it is, so that every run becomes full.
// Otherwise the run is halved.
KeyOrder::Spot KeyOrder::MakeRoom(Spot spot, std::string_view key_bytes) {
  KeyRun* run = spot.run;
  if (spot.at == run->count) return {NewRunBehind(run, key_bytes), 0};
  constexpr std::size_t kHalf = KeyRun::kMost / 2;
  KeyRun* upper = NewRunBehind(run, run->places[kHalf].bytes);
  MoveTo(upper, run, kHalf);
  return spot.at <= kHalf ? spot : Spot{upper, spot.at - kHalf};
}

void KeyOrder::Insert(Record* record, bool stored) {
  assert(record->run == nullptr);
  const std::string_view key_bytes = record->key.bytes();
  Spot spot = Find(key_bytes, last_[stored]);
  if (spot.run->count == KeyRun::kMost) spot = MakeRoom(spot, key_bytes);
  assert(spot.at == spot.run->count || key_bytes < spot.run->places[spot.at].bytes);
  InsertAt(spot.run, spot.at, {key_bytes, record}, stored);
  ++size_[stored];
  Spot& other = last_[!stored];
  if (other.run == spot.run && other.at >= spot.at) ++other.at;
  last_[stored] = spot;
}

void KeyOrder::SetStored(Record* record, bool stored) {
  KeyRun* run = record->run;
  assert(run != nullptr);
  const KeyRun::Places place = KeyRun::Places{1} << IndexOf(*run, record);
  assert((run->Of(stored) & place) == 0);
  const Kinds kinds = KindsIn(*run);
  run->stored ^= place;
  NoteKinds(run, kinds);
  ++size_[stored];
  --size_[!stored];
}

void KeyOrder::Erase(Record* record) {
  KeyRun* run = record->run;
  assert(run != nullptr);
  const std::size_t at = IndexOf(*run, record);
  const Kinds kinds = KindsIn(*run);
  --size_[(run->stored >> at & 1) != 0];
  const auto place = run->places.begin() + static_cast<std::ptrdiff_t>(at);
  std::copy(place + 1, run->places.begin() + static_cast<std::ptrdiff_t>(run->count), place);
  --run->count;
  const KeyRun::Places below = KeyRun::Before(at);
  run->stored = (run->stored & below) | (run->stored >> 1 & ~below);
  NoteKinds(run, kinds);
  record->run = nullptr;
  for (Spot& last : last_) {
    if (last.run != run || last.at < at) continue;
    last = last.at == 0 ? Spot{} : Spot{run, last.at - 1};
  }
  KeyRun* before = run->self != runs_.begin() ? &std::prev(run->self)->second : nullptr;
  if (run->count == 0 && before != nullptr) {
    runs_.erase(run->self);
  } else {
    JoinWithNext(run);
  }
  if (before != nullptr) JoinWithNext(before);
}

// Joins two runs if together they fill at most half of one, so that the result is far from being
// split again.
void KeyOrder::JoinWithNext(KeyRun* run) {
  const auto next = std::next(run->self);
  if (next == runs_.end() || run->count + next->second.count > KeyRun::kMost / 2) return;
  MoveTo(run, &next->second, 0);
  runs_.erase(next);
}

bool KeyOrder::IsConsistent() const {
  std::array<std::size_t, 2> size{};
  std::array<std::size_t, 2> having{};
  const KeyPlace* before = nullptr;
  for (auto run = runs_.begin(); run != runs_.end(); ++run) {
    const KeyRun& there = run->second;
    if (there.self != run || there.count > KeyRun::kMost) return false;
    if ((there.count == 0 || run->first.empty()) && run != runs_.begin()) return false;
    if (before != nullptr && before->bytes >= run->first) return false;
    if ((there.stored & ~KeyRun::Before(there.count)) != 0) return false;
    for (std::size_t at = 0; at < there.count; ++at) {
      const KeyPlace& place = there.places[at];
      if (place.record->run != &there || place.record->key.bytes() != place.bytes) return false;
      if (at == 0 ? place.bytes < run->first : place.bytes <= before->bytes) return false;
      before = &place;
    }
    for (const bool stored : {false, true}) {
      const auto of_kind = static_cast<std::size_t>(std::popcount(there.Of(stored)));
      size[stored] += of_kind;
      if (of_kind == 0) continue;
      const auto noted = having_[stored].find(run->first);
      if (noted == having_[stored].end() || noted->second != &there) return false;
      ++having[stored];
    }
  }
  for (const bool stored : {false, true}) {
    if (having[stored] != having_[stored].size()) return false;
    const Spot& last = last_[stored];
    if (last.run != nullptr && last.at >= last.run->count) return false;
  }
  return size == size_;
}

}  // namespace tuplespace::internal
