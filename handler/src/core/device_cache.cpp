#include "acan/handler/device_cache.h"

#include <cassert>
#include <utility>

#include "acan/core/names.h"

namespace acan {

using tuplespace::Key;

// ---- a pinned entry ----------------------------------------------------------------------------

void DeviceCache::Pinned::AwaitAnswer(FlightId maker) const {
  Entry& entry = at_->second;
  entry.maker = maker;
  entry.awaiting = true;
}

// Another flight may have made the same result.
void DeviceCache::Pinned::Accept(FlightId maker) const {
  Entry& entry = at_->second;
  if (entry.maker == maker) entry.awaiting = false;
}

void DeviceCache::Pinned::EndAwaiting(FlightId maker, StepActions& out) const {
  const Entry& entry = at_->second;
  if (entry.awaiting && entry.GoesWith(maker)) ForgetPinned(at_, out);
}

void DeviceCache::Pinned::Owe() const {
  Entry& entry = at_->second;
  assert(entry.pins > 0);
  entry.doomed = entry.forgotten = false;
  entry.owed = true;
}

// ---- entries -----------------------------------------------------------------------------------

// This handler will not be asked for the older version again.
void DeviceCache::BecomeNewest(Entries::iterator at, StepActions& out) {
  const auto [newest, is_first] = newest_.try_emplace(WithoutStep(at->first), at);
  at->second.newest = true;
  if (is_first || newest->second == at) return;
  const auto older = std::exchange(newest->second, at);
  older->second.newest = false;
  if (older->second.owed) {
    // The space will say when no client needs it.
  } else if (older->second.pins > 0) {
    older->second.doomed = true;
    out.NoteDropped(older->first);
  } else {
    Drop(older, out);
  }
}

std::pair<DeviceCache::Entries::iterator, bool> DeviceCache::Insert(const Key& key,
                                                                    std::uint64_t bytes,
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

void DeviceCache::Add(const KeptResult& kept, std::int64_t now_us, StepActions& out) {
  BecomeNewest(Insert(kept.key, kept.bytes, now_us).first, out);
}

std::pair<DeviceCache::Pinned, bool> DeviceCache::AddPinned(const KeptResult& kept,
                                                            std::int64_t now_us, StepActions& out) {
  const auto [at, is_new] = Insert(kept.key, kept.bytes, now_us);
  BecomeNewest(at, out);
  return {Pin(at, now_us), is_new};
}

void DeviceCache::AddAhead(const Key& key, std::uint64_t bytes, std::int64_t now_us) {
  const auto [at, is_new] = Insert(key, bytes, now_us);
  assert(is_new);
  at->second.ahead = true;
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
                                                            StepActions& out) {
  const auto at = entries_.find(key);
  if (at == entries_.end() || !at->second.MayBeUsed()) return std::nullopt;
  if (std::exchange(at->second.ahead, false)) BecomeNewest(at, out);
  return Pin(at, now_us);
}

DeviceCache::Pinned DeviceCache::Pin(Entries::iterator at, std::int64_t now_us) {
  Entry& entry = at->second;
  if (!entry.IsHeld()) held_bytes_ += entry.bytes;
  ++entry.pins;
  entry.last_used_us = now_us;
  return Pinned(at);
}

void DeviceCache::Unpin(const Pinned& pinned, std::int64_t now_us, StepActions& out) {
  Entry& entry = pinned.at_->second;
  assert(entry.pins > 0);
  entry.last_used_us = now_us;
  if (--entry.pins > 0 || entry.owed) return;
  held_bytes_ -= entry.bytes;
  if (entry.doomed) Drop(pinned.at_, out);
}

bool DeviceCache::Take(const Pinned& pinned, StepActions& out) {
  const Entry& entry = pinned.at_->second;
  if (entry.pins != 1 || entry.owed) return false;
  held_bytes_ -= entry.bytes;
  Erase(pinned.at_, out);
  return true;
}

// ---- what goes ---------------------------------------------------------------------------------

void DeviceCache::Forget(const Key& key, StepActions& out) {
  const auto at = entries_.find(key);
  if (at != entries_.end()) Forget(at, out);
}

void DeviceCache::Refuse(const Key& key, FlightId maker, StepActions& out) {
  const auto at = entries_.find(key);
  if (at != entries_.end() && at->second.GoesWith(maker)) Forget(at, out);
}

void DeviceCache::Forget(Entries::iterator at, StepActions& out) {
  assert(!at->second.owed);
  if (at->second.pins == 0) return Drop(at, out);
  ForgetPinned(at, out);
}

void DeviceCache::ForgetPinned(Entries::iterator at, StepActions& out) {
  at->second.forgotten = true;
  if (!std::exchange(at->second.doomed, true)) out.NoteDropped(at->first);
}

void DeviceCache::EndOwed(const Key& key) {
  EndOwed(entries_.at(key));
}

void DeviceCache::EndOwed(Entry& entry) {
  assert(entry.owed);
  entry.owed = false;
  if (entry.pins == 0) held_bytes_ -= entry.bytes;
}

// The space already knows that it is not held here. If it gets the tuple from elsewhere, the bytes
// may differ.
void DeviceCache::Release(const Key& key, StepActions& out) {
  const auto at = entries_.find(key);
  assert(at != entries_.end());
  EndOwed(at->second);
  at->second.doomed = at->second.forgotten = true;
  if (at->second.pins == 0) Drop(at, out);
}

void DeviceCache::Drop(Entries::const_iterator at, StepActions& out) {
  assert(!at->second.IsHeld());
  out.Add(DropCached{at->first});
  Erase(at, out);
}

void DeviceCache::Erase(Entries::const_iterator at, StepActions& out) {
  bytes_ -= at->second.bytes;
  if (!at->second.doomed) out.NoteDropped(at->first);
  if (at->second.newest) newest_.erase(WithoutStep(at->first));
  entries_.erase(at);
}

}  // namespace acan
