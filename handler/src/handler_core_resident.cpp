// HandlerCore: results that stay on the device.
#include <algorithm>
#include <cassert>
#include <utility>

#include "acan/handler/handler_core.h"
#include "acan/handler/planted.h"

namespace acan {

using tuplespace::Key;

namespace {
// With nothing to do for so long what is owed is supplied.
constexpr std::int64_t kIdleUs = 50'000;
}  // namespace

bool HandlerCore::MayBeResident(std::uint64_t bytes) const {
  if (bytes == 0 || draining_) return false;
  const std::uint64_t taken = resident_bytes_ + 2 * largest_need_bytes_;
  return taken <= limit_bytes_ && bytes <= limit_bytes_ - taken;
}

void HandlerCore::AddOwed(const Key& key) {
  Cached& cached = cache_.at(key);
  if (!owed_.try_emplace(key, false).second) return;
  assert(cached.pins > 0);
  cached.doomed = false;
  cached.owed = true;
  resident_bytes_ += cached.bytes;
}

HandlerCore::Cached* HandlerCore::EndOwed(const Key& key) {
  if (owed_.erase(key) == 0) return nullptr;
  Cached& cached = cache_.at(key);
  cached.owed = false;
  resident_bytes_ -= cached.bytes;
  if (cached.pins == 0) owed_bytes_ -= cached.bytes;
  return &cached;
}

void HandlerCore::On(const KeptWanted& event, std::int64_t, Actions& out) {
  const auto it = owed_.find(event.key);
  if (it == owed_.end() || std::exchange(it->second, true)) return;
  if (IsPlanted(HandlerBug::kKeptIsNotSupplied)) return;
  out.push_back(SupplyKept{event.key});
}

void HandlerCore::On(const KeptSupplied& event, std::int64_t, Actions&) {
  EndOwed(event.key);
}

// Who asks is told in the end that it is lost; a handler that leaves does not wait for that.
void HandlerCore::On(const SupplyFailed& event, std::int64_t, Actions&) {
  if (draining_) {
    EndOwed(event.key);
  } else if (const auto it = owed_.find(event.key); it != owed_.end()) {
    it->second = false;
  }
}

// The space knows already that it is not held here.
void HandlerCore::On(const KeptReleased& event, std::int64_t, Actions& out) {
  Cached* cached = EndOwed(event.key);
  if (cached == nullptr) return;
  cached->doomed = true;
  if (cached->pins == 0) RemoveCached(event.key, out);
}

void HandlerCore::SupplyAll(Actions& out) {
  for (auto& [key, under_way] : owed_) {
    if (!std::exchange(under_way, true)) out.push_back(SupplyKept{key});
  }
}

void HandlerCore::NoteIdle(std::int64_t now_us) {
  const bool idle =
      flights_.empty() && !owed_.empty() &&
      std::any_of(owed_.begin(), owed_.end(), [](const auto& o) { return !o.second; });
  if (!idle) {
    idle_until_us_ = tuplespace::kForeverUs;
  } else if (idle_until_us_ == tuplespace::kForeverUs) {
    idle_until_us_ = now_us + kIdleUs;
  }
}

}  // namespace acan
