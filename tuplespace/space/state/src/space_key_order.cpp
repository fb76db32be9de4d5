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
      begin, end, key_bytes, [](const KeyPlace& a, std::string_view b) { return a.bytes() < b; });
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

void KeyOrder::InsertAt(KeyRun* run, std::size_t at, const KeyPlace& place) {
  assert(run->count < KeyRun::kMost && at <= run->count);
  std::copy_backward(run->places.begin() + static_cast<std::ptrdiff_t>(at),
                     run->places.begin() + static_cast<std::ptrdiff_t>(run->count),
                     run->places.begin() + static_cast<std::ptrdiff_t>(run->count + 1));
  run->places[at] = place;
  ++run->count;
  run->stored += place.stored ? 1 : 0;
  place.record->run = run;
}

bool KeyOrder::FindNear(const Spot& last, std::string_view key_bytes, Spot* spot) const {
  KeyRun* run = last.run;
  if (run == nullptr || key_bytes < run->places[last.at].bytes()) return false;
  const std::size_t end = std::min(run->count, last.at + 1 + kMaxStepsFromLast);
  for (std::size_t at = last.at + 1; at < end; ++at) {
    if (key_bytes < run->places[at].bytes()) {
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

// If keys come in ascending order, the full run stays as it is, so that every run becomes full.
// Otherwise the run is halved.
KeyOrder::Spot KeyOrder::MakeRoom(Spot spot, std::string_view key_bytes) {
  KeyRun* run = spot.run;
  if (spot.at == run->count) return {NewRunBehind(run, key_bytes), 0};
  constexpr std::size_t kHalf = KeyRun::kMost / 2;
  KeyRun* upper = NewRunBehind(run, run->places[kHalf].bytes());
  for (std::size_t at = kHalf; at < run->count; ++at) {
    InsertAt(upper, upper->count, run->places[at]);
  }
  run->count = kHalf;
  run->stored -= upper->stored;
  for (Spot& last : last_) {
    if (last.run == run && last.at >= kHalf) last = {upper, last.at - kHalf};
  }
  return spot.at <= kHalf ? spot : Spot{upper, spot.at - kHalf};
}

void KeyOrder::Insert(Record* record, bool stored) {
  assert(record->run == nullptr);
  const std::string_view key_bytes = record->key.bytes();
  Spot spot = Find(key_bytes, last_[stored]);
  if (spot.run->count == KeyRun::kMost) spot = MakeRoom(spot, key_bytes);
  assert(spot.at == spot.run->count || key_bytes < spot.run->places[spot.at].bytes());
  InsertAt(spot.run, spot.at,
           {key_bytes.data(), static_cast<std::uint32_t>(key_bytes.size()), stored, record});
  ++size_;
  stored_ += stored ? 1 : 0;
  Spot& other = last_[!stored];
  if (other.run == spot.run && other.at >= spot.at) ++other.at;
  last_[stored] = spot;
}

void KeyOrder::SetStored(Record* record, bool stored) {
  KeyRun* run = record->run;
  assert(run != nullptr);
  KeyPlace& place = run->places[IndexOf(*run, record)];
  assert(place.stored != stored);
  place.stored = stored;
  if (stored) {
    ++run->stored;
    ++stored_;
  } else {
    --run->stored;
    --stored_;
  }
}

void KeyOrder::Erase(Record* record) {
  KeyRun* run = record->run;
  assert(run != nullptr && size_ > 0);
  const std::size_t at = IndexOf(*run, record);
  const auto place = run->places.begin() + static_cast<std::ptrdiff_t>(at);
  const std::size_t stored = place->stored ? 1 : 0;
  std::copy(place + 1, run->places.begin() + static_cast<std::ptrdiff_t>(run->count), place);
  --run->count;
  --size_;
  run->stored -= stored;
  stored_ -= stored;
  record->run = nullptr;
  for (Spot& last : last_) {
    if (last.run != run || last.at < at) continue;
    last = last.at == 0 ? Spot{} : Spot{run, last.at - 1};
  }
  if (run->count == 0 && run->self != runs_.begin()) {
    runs_.erase(run->self);
  } else {
    JoinWithNext(run);
  }
}

// Joins two runs if together they fill at most half of one, so that the result is far from being
// split again.
void KeyOrder::JoinWithNext(KeyRun* run) {
  const auto next = std::next(run->self);
  if (next == runs_.end() || run->count + next->second.count > KeyRun::kMost / 2) return;
  for (Spot& last : last_) {
    if (last.run == &next->second) last = {run, run->count + last.at};
  }
  for (std::size_t at = 0; at < next->second.count; ++at) {
    InsertAt(run, run->count, next->second.places[at]);
  }
  runs_.erase(next);
}

bool KeyOrder::IsConsistent() const {
  std::size_t count = 0;
  std::size_t stored = 0;
  const KeyPlace* before = nullptr;
  for (auto run = runs_.begin(); run != runs_.end(); ++run) {
    const KeyRun& there = run->second;
    if (there.self != run || there.count > KeyRun::kMost) return false;
    if ((there.count == 0 || run->first.empty()) && run != runs_.begin()) return false;
    if (before != nullptr && before->bytes() >= run->first) return false;
    std::size_t stored_here = 0;
    for (std::size_t at = 0; at < there.count; ++at) {
      const KeyPlace& place = there.places[at];
      if (place.record->run != &there || place.record->key.bytes() != place.bytes()) return false;
      if (at == 0 ? place.bytes() < run->first : place.bytes() <= before->bytes()) return false;
      stored_here += place.stored ? 1 : 0;
      before = &place;
    }
    if (stored_here != there.stored) return false;
    count += there.count;
    stored += there.stored;
  }
  const auto is_inside = [](const Spot& spot) {
    return spot.run == nullptr || spot.at < spot.run->count;
  };
  return count == size_ && stored == stored_ && std::all_of(last_.begin(), last_.end(), is_inside);
}

}  // namespace tuplespace::internal
