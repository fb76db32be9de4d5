#include "acan/handler/device_cache.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

#include "acan/core/names.h"

namespace acan {

using tuplespace::Key;

namespace {
// An entry that is not used for this long goes.
constexpr std::int64_t kColdUs = 10'000'000;
// The broker refuses a handler's request that names more tuples (access_roles.cpp).
constexpr std::size_t kMostOfHold = 4096;

// Removes and returns the first of them, at most `most`.
std::vector<Key> TakeSome(std::vector<Key>& keys, std::size_t most) {
  if (keys.size() <= most) return std::exchange(keys, {});
  const auto end = keys.begin() + static_cast<std::ptrdiff_t>(most);
  std::vector<Key> some(keys.begin(), end);
  keys.erase(keys.begin(), end);
  return some;
}
}  // namespace

// This handler will not be asked for the older version again.
void DeviceCache::BecomeNewest(const Key& key, Actions& out) {
  const std::string identity = WithoutStep(key);
  const auto older = newest_.find(identity);
  if (older != newest_.end() && older->second != key) {
    const auto it = entries_.find(older->second);
    assert(it != entries_.end());
    if (it->second.owed) {
      // The space will say when no client needs it.
    } else if (it->second.pins > 0) {
      it->second.doomed = true;
      newly_dropped_.push_back(older->second);
    } else {
      const Key gone = older->second;  // Remove destroys what `older` refers to
      Remove(gone, out);
    }
  }
  newest_[identity] = key;
}

bool DeviceCache::Add(const KeptResult& kept, std::int64_t now_us, Actions& out) {
  BecomeNewest(kept.key, out);
  const auto [it, is_new] = entries_.try_emplace(kept.key);
  assert(is_new || it->second.bytes == kept.bytes);
  it->second.last_used_us = now_us;
  if (!is_new) return false;
  it->second.bytes = kept.bytes;
  bytes_ += kept.bytes;
  return true;
}

void DeviceCache::AddAhead(const Key& key, std::uint64_t bytes, std::int64_t now_us) {
  const auto [it, is_new] = entries_.try_emplace(key);
  assert(is_new);
  it->second.bytes = bytes;
  it->second.ahead = true;
  it->second.last_used_us = now_us;
  bytes_ += bytes;
}

void DeviceCache::AwaitAnswer(const Key& key, FlightId maker) {
  Entry& entry = entries_.at(key);
  entry.maker = maker;
  entry.awaiting = true;
}

// Another flight may have made the same result.
void DeviceCache::Accept(const Key& key, FlightId maker) {
  Entry& entry = entries_.at(key);
  if (entry.maker == maker) entry.awaiting = false;
}

// What is owed is released when no client needs it.
void DeviceCache::Refuse(const Key& key, FlightId maker, Actions& out) {
  const auto it = entries_.find(key);
  if (it == entries_.end() || it->second.maker != maker || it->second.owed) return;
  Forget(key, out);
}

void DeviceCache::EndAwaiting(const Key& key, FlightId maker, Actions& out) {
  if (entries_.at(key).awaiting) Refuse(key, maker, out);
}

bool DeviceCache::MayUse(const Key& key) const {
  const auto it = entries_.find(key);
  return it != entries_.end() && it->second.MayBeUsed();
}

bool DeviceCache::IsNewest(const Key& key) const {
  const auto newest = newest_.find(WithoutStep(key));
  return newest == newest_.end() || newest->second < key;
}

void DeviceCache::Pin(const Key& key, std::int64_t now_us) {
  Pin(entries_.at(key), now_us);
}

std::optional<std::uint64_t> DeviceCache::PinIfUsable(const Key& key, std::int64_t now_us,
                                                      Actions& out) {
  const auto it = entries_.find(key);
  if (it == entries_.end() || !it->second.MayBeUsed()) return std::nullopt;
  if (std::exchange(it->second.ahead, false)) BecomeNewest(key, out);
  Pin(it->second, now_us);
  return it->second.bytes;
}

void DeviceCache::Pin(Entry& entry, std::int64_t now_us) {
  if (!entry.IsHeld()) held_bytes_ += entry.bytes;
  ++entry.pins;
  entry.last_used_us = now_us;
}

void DeviceCache::Unpin(const Key& key, std::int64_t now_us, Actions& out) {
  Entry& entry = entries_.at(key);
  assert(entry.pins > 0);
  entry.last_used_us = now_us;
  if (--entry.pins > 0 || entry.owed) return;
  held_bytes_ -= entry.bytes;
  if (entry.doomed) Remove(key, out);
}

bool DeviceCache::Take(const Key& key) {
  const auto it = entries_.find(key);
  assert(it != entries_.end());
  if (it->second.pins != 1 || it->second.owed) return false;
  held_bytes_ -= it->second.bytes;
  Erase(it);
  return true;
}

void DeviceCache::Forget(const Key& key, Actions& out) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;
  assert(!it->second.owed);
  if (it->second.pins == 0) return Remove(key, out);
  it->second.forgotten = true;
  if (!std::exchange(it->second.doomed, true)) newly_dropped_.push_back(key);
}

void DeviceCache::AnnounceAll() {
  for (const auto& [key, entry] : entries_) {
    if (!entry.doomed && !entry.awaiting) newly_held_.push_back(key);
  }
}

// All that is dropped comes before all that is held, as in a single request.
void DeviceCache::FlushHolds(Actions& out) {
  while (!newly_held_.empty() || !newly_dropped_.empty()) {
    acan::AnnounceHeld next;
    next.dropped = TakeSome(newly_dropped_, kMostOfHold);
    next.held = TakeSome(newly_held_, kMostOfHold - next.dropped.size());
    out.push_back(std::move(next));
  }
}

// ---- what goes ---------------------------------------------------------------------------------

// These entries will hardly be needed again, and another handler often waits for their memory.
void DeviceCache::DropOlder(const Key& input, Actions& out) {
  if (step_ && input.bytes().compare(0, step_->bytes().size(), step_->bytes()) == 0) return;
  std::optional<Key> step = StepOf(input);
  if (!step) return;
  step_ = std::move(step);
  std::vector<Key> older;
  const auto end = entries_.lower_bound(*step_);
  for (auto it = entries_.lower_bound(RunOf(*step_)); it != end; ++it) {
    if (!it->second.IsHeld()) older.push_back(it->first);
  }
  for (const Key& key : older) Remove(key, out);
}

std::int64_t DeviceCache::NextCheckUs() const {
  return entries_.empty() ? tuplespace::kForeverUs : cold_check_us_;
}

void DeviceCache::DropCold(std::int64_t now_us, Actions& out) {
  cold_check_us_ = now_us + kColdUs / 4;
  std::vector<Key> cold;
  for (const auto& [key, entry] : entries_) {
    if (!entry.IsHeld() && now_us >= entry.last_used_us + kColdUs) cold.push_back(key);
  }
  for (const Key& key : cold) Remove(key, out);
}

void DeviceCache::ShrinkTo(std::uint64_t most_bytes, Actions& out) {
  if (bytes_ <= most_bytes) return;
  // Sorted once, as a large task may need the room of many small inputs.
  std::vector<std::map<Key, Entry>::iterator> coldest_first;
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (!it->second.IsHeld()) coldest_first.push_back(it);
  }
  std::stable_sort(coldest_first.begin(), coldest_first.end(), [](const auto& a, const auto& b) {
    return a->second.last_used_us < b->second.last_used_us;
  });
  for (const auto& entry : coldest_first) {
    if (bytes_ <= most_bytes) return;
    Remove(Key(entry->first), out);  // a copy, as the entry is destroyed
  }
  assert(bytes_ <= most_bytes);
}

void DeviceCache::Remove(const Key& key, Actions& out) {
  const auto it = entries_.find(key);
  assert(it != entries_.end() && !it->second.IsHeld());
  out.push_back(DropCached{key});
  Erase(it);
}

void DeviceCache::Erase(std::map<Key, Entry>::iterator it) {
  const Key key = it->first;
  bytes_ -= it->second.bytes;
  if (!it->second.doomed) newly_dropped_.push_back(key);
  const auto newest = newest_.find(WithoutStep(key));
  if (newest != newest_.end() && newest->second == key) newest_.erase(newest);
  entries_.erase(it);
}

// ---- what is owed ------------------------------------------------------------------------------

void DeviceCache::AddOwed(const Key& key) {
  Entry& entry = entries_.at(key);
  if (!owed_.try_emplace(key, Supply::kNone).second) return;
  assert(entry.pins > 0);
  entry.doomed = entry.forgotten = false;
  entry.owed = true;
  owed_bytes_ += entry.bytes;
}

bool DeviceCache::EndOwed(const Key& key) {
  const auto owed = owed_.find(key);
  if (owed == owed_.end()) return false;
  Change(owed->second, Supply::kNone);
  owed_.erase(owed);
  Entry& entry = entries_.at(key);
  entry.owed = false;
  owed_bytes_ -= entry.bytes;
  if (entry.pins == 0) held_bytes_ -= entry.bytes;
  return true;
}

// The space already knows that it is not held here. If it gets the tuple from elsewhere, the bytes
// may differ.
void DeviceCache::Release(const Key& key, Actions& out) {
  if (!EndOwed(key)) return;
  Entry& entry = entries_.at(key);
  entry.doomed = entry.forgotten = true;
  if (entry.pins == 0) Remove(key, out);
}

void DeviceCache::ReleaseAllBut(const std::set<Key>& keys, Actions& out) {
  std::vector<Key> lost;
  for (auto& [key, supply] : owed_) {
    Change(supply, Supply::kNone);
    if (!keys.contains(key)) lost.push_back(key);
  }
  for (const Key& key : lost) Release(key, out);
}

bool DeviceCache::BeginSupply(const Key& key) {
  const auto it = owed_.find(key);
  return it != owed_.end() && Begin(it->second);
}

void DeviceCache::Change(Supply& supply, Supply next) {
  under_way_ -= supply == Supply::kUnderWay ? 1 : 0;
  failed_ -= supply == Supply::kFailed ? 1 : 0;
  under_way_ += next == Supply::kUnderWay ? 1 : 0;
  failed_ += next == Supply::kFailed ? 1 : 0;
  supply = next;
}

bool DeviceCache::Begin(Supply& supply) {
  if (supply == Supply::kUnderWay) return false;
  Change(supply, Supply::kUnderWay);
  return true;
}

void DeviceCache::EndSupply(const Key& key) {
  const auto it = owed_.find(key);
  if (it != owed_.end()) Change(it->second, Supply::kNone);
}

bool DeviceCache::FailSupply(const Key& key) {
  const auto it = owed_.find(key);
  if (it == owed_.end() || it->second != Supply::kUnderWay) return false;
  Change(it->second, Supply::kFailed);
  return true;
}

void DeviceCache::SupplyFailedAgain(Actions& out) {
  for (auto& [key, supply] : owed_) {
    if (supply != Supply::kFailed) continue;
    Begin(supply);
    out.push_back(SupplyKept{key});
  }
}

void DeviceCache::SupplyAll(Actions& out) {
  for (auto& [key, supply] : owed_) {
    if (Begin(supply)) out.push_back(SupplyKept{key});
  }
}

void DeviceCache::SupplySome(std::uint64_t enough_bytes, Actions& out) {
  std::uint64_t bytes = 0;
  for (auto it = owed_.begin(); it != owed_.end() && bytes < enough_bytes; ++it) {
    if (it->second != Supply::kNone) continue;
    Begin(it->second);
    out.push_back(SupplyKept{it->first});
    bytes += entries_.at(it->first).bytes;
  }
}

}  // namespace acan
