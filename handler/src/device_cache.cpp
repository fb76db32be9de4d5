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
void DeviceCache::BecomeNewest(Iterator at, Actions& out) {
  const auto [newest, is_first] = newest_.try_emplace(WithoutStep(at->first), at);
  at->second.newest = true;
  if (is_first || newest->second == at) return;
  const Iterator older = std::exchange(newest->second, at);
  older->second.newest = false;
  if (older->second.owed) {
    // The space will say when no client needs it.
  } else if (older->second.pins > 0) {
    older->second.doomed = true;
    newly_dropped_.push_back(older->first);
  } else {
    Remove(older, out);
  }
}

std::pair<DeviceCache::Iterator, bool> DeviceCache::Insert(const Key& key, std::uint64_t bytes,
                                                           std::int64_t now_us) {
  const auto [at, is_new] = entries_.try_emplace(key);
  assert(is_new || at->second.bytes == bytes);
  at->second.last_used_us = now_us;
  if (is_new) {
    at->second.bytes = bytes;
    bytes_ += bytes;
  }
  return {at, is_new};
}

void DeviceCache::Add(const KeptResult& kept, std::int64_t now_us, Actions& out) {
  BecomeNewest(Insert(kept.key, kept.bytes, now_us).first, out);
}

std::pair<DeviceCache::Pinned, bool> DeviceCache::AddPinned(const KeptResult& kept,
                                                            std::int64_t now_us, Actions& out) {
  const auto [at, is_new] = Insert(kept.key, kept.bytes, now_us);
  BecomeNewest(at, out);
  return {Pin(at, now_us), is_new};
}

void DeviceCache::AddAhead(const Key& key, std::uint64_t bytes, std::int64_t now_us) {
  const auto [at, is_new] = Insert(key, bytes, now_us);
  assert(is_new);
  at->second.ahead = true;
}

void DeviceCache::AwaitAnswer(const Pinned& pinned, FlightId maker) {
  Entry& entry = pinned.at_->second;
  entry.maker = maker;
  entry.awaiting = true;
}

// Another flight may have made the same result.
void DeviceCache::Accept(const Pinned& pinned, FlightId maker) {
  Entry& entry = pinned.at_->second;
  if (entry.maker == maker) entry.awaiting = false;
}

void DeviceCache::Refuse(const Key& key, FlightId maker, Actions& out) {
  const auto at = entries_.find(key);
  if (at != entries_.end()) Refuse(at, maker, out);
}

// What is owed is released when no client needs it.
void DeviceCache::Refuse(Iterator at, FlightId maker, Actions& out) {
  if (at->second.maker == maker && !at->second.owed) Forget(at, out);
}

void DeviceCache::EndAwaiting(const Pinned& pinned, FlightId maker, Actions& out) {
  if (pinned.at_->second.awaiting) Refuse(pinned.at_, maker, out);
}

bool DeviceCache::MayUse(const Key& key) const {
  const auto at = entries_.find(key);
  return at != entries_.end() && at->second.MayBeUsed();
}

bool DeviceCache::IsNewest(const Key& key) const {
  const auto newest = newest_.find(WithoutStep(key));
  return newest == newest_.end() || newest->second->first < key;
}

std::optional<DeviceCache::Pinned> DeviceCache::PinIfUsable(const Key& key, std::int64_t now_us,
                                                            Actions& out) {
  const auto at = entries_.find(key);
  if (at == entries_.end() || !at->second.MayBeUsed()) return std::nullopt;
  if (std::exchange(at->second.ahead, false)) BecomeNewest(at, out);
  return Pin(at, now_us);
}

DeviceCache::Pinned DeviceCache::Pin(Iterator at, std::int64_t now_us) {
  Entry& entry = at->second;
  if (!entry.IsHeld()) held_bytes_ += entry.bytes;
  ++entry.pins;
  entry.last_used_us = now_us;
  return Pinned(at);
}

void DeviceCache::Unpin(const Pinned& pinned, std::int64_t now_us, Actions& out) {
  Entry& entry = pinned.at_->second;
  assert(entry.pins > 0);
  entry.last_used_us = now_us;
  if (--entry.pins > 0 || entry.owed) return;
  held_bytes_ -= entry.bytes;
  if (entry.doomed) Remove(pinned.at_, out);
}

bool DeviceCache::Take(const Pinned& pinned) {
  const Entry& entry = pinned.at_->second;
  if (entry.pins != 1 || entry.owed) return false;
  held_bytes_ -= entry.bytes;
  Erase(pinned.at_);
  return true;
}

void DeviceCache::Forget(const Key& key, Actions& out) {
  const auto at = entries_.find(key);
  if (at != entries_.end()) Forget(at, out);
}

void DeviceCache::Forget(Iterator at, Actions& out) {
  assert(!at->second.owed);
  if (at->second.pins == 0) return Remove(at, out);
  at->second.forgotten = true;
  if (!std::exchange(at->second.doomed, true)) newly_dropped_.push_back(at->first);
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
  const auto end = entries_.lower_bound(*step_);
  for (auto at = entries_.lower_bound(RunOf(*step_)); at != end;) {
    const Iterator older = at++;
    if (!older->second.IsHeld()) Remove(older, out);
  }
}

std::int64_t DeviceCache::NextCheckUs() const {
  return entries_.empty() ? tuplespace::kForeverUs : cold_check_us_;
}

void DeviceCache::DropCold(std::int64_t now_us, Actions& out) {
  cold_check_us_ = now_us + kColdUs / 4;
  for (auto at = entries_.begin(); at != entries_.end();) {
    const Iterator cold = at++;
    const Entry& entry = cold->second;
    if (!entry.IsHeld() && now_us >= entry.last_used_us + kColdUs) Remove(cold, out);
  }
}

void DeviceCache::ShrinkTo(std::uint64_t most_bytes, Actions& out) {
  if (bytes_ <= most_bytes) return;
  // Sorted once, as a large task may need the room of many small inputs.
  std::vector<Iterator> coldest_first;
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (!it->second.IsHeld()) coldest_first.push_back(it);
  }
  std::stable_sort(coldest_first.begin(), coldest_first.end(), [](const auto& a, const auto& b) {
    return a->second.last_used_us < b->second.last_used_us;
  });
  for (const auto& entry : coldest_first) {
    if (bytes_ <= most_bytes) return;
    Remove(entry, out);
  }
  assert(bytes_ <= most_bytes);
}

void DeviceCache::Remove(Iterator at, Actions& out) {
  assert(!at->second.IsHeld());
  out.push_back(DropCached{at->first});
  Erase(at);
}

void DeviceCache::Erase(Iterator at) {
  bytes_ -= at->second.bytes;
  if (!at->second.doomed) newly_dropped_.push_back(at->first);
  if (at->second.newest) newest_.erase(WithoutStep(at->first));
  entries_.erase(at);
}

// ---- what is owed ------------------------------------------------------------------------------

void DeviceCache::AddOwed(const Pinned& pinned) {
  Entry& entry = pinned.at_->second;
  if (!owed_.try_emplace(pinned.key(), Supply::kNone).second) return;
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
  const auto at = entries_.find(key);
  assert(at != entries_.end());
  at->second.doomed = at->second.forgotten = true;
  if (at->second.pins == 0) Remove(at, out);
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
