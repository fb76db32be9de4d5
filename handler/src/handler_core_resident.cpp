// HandlerCore: results that stay on the device.
#include <algorithm>
#include <cstdint>

#include "acan/handler/handler_core.h"
#include "acan/handler/planted.h"

namespace acan {

namespace {
// Owed entries are supplied when the handler has been idle for this long.
constexpr std::int64_t kIdleUs = 50'000;
// And for this many times as long as the supplies take: over a link, a handler mostly waits for the
// bytes of others. A device that is much faster than its host is idle in each step and owes all
// weights.
constexpr std::int64_t kIdleSupplies = 4;
// A limit, as work may come, and the thread that takes it also fetches the bytes from the device.
constexpr std::uint64_t kSuppliedAtOnceBytes = 16u << 20;
}  // namespace

bool HandlerCore::MayBeResident(std::uint64_t bytes) const {
  if (bytes == 0 || draining_) return false;
  const std::uint64_t taken = cache_.owed_bytes() + coming_resident_bytes_ + MostNeeded();
  return taken <= limit_bytes_ && bytes <= limit_bytes_ - taken;
}

void HandlerCore::On(const KeptWanted& event, std::int64_t, Actions& out) {
  if (!cache_.BeginSupply(event.key)) return;
  if (IsPlanted(HandlerBug::kKeptIsNotSupplied)) return;
  out.push_back(SupplyKept{event.key});
}

void HandlerCore::On(const KeptSupplied& event, std::int64_t, Actions&) {
  if (cache_.Contains(event.key)) link_.Note(cache_.BytesOf(event.key), event.took_us);
  cache_.EndOwed(event.key);
  EndPauseIfAllSucceeded();
}

// Who asks is told in the end that it is lost; a handler that leaves does not wait for that.
void HandlerCore::On(const SupplyFailed& event, std::int64_t now_us, Actions&) {
  if (draining_) {
    cache_.EndOwed(event.key);
    return;
  }
  if (!cache_.FailSupply(event.key) || SuppliesPause()) return;
  supply_pause_us_ = std::clamp(2 * supply_pause_us_, kRetrySupplyUs, kMaxRetrySupplyUs);
  supply_again_us_ = now_us + supply_pause_us_;
}

void HandlerCore::On(const EarlierReleased& event, std::int64_t, Actions& out) {
  cache_.EndSupply(event.key);
  if (draining_) cache_.SupplyAll(out);
}

void HandlerCore::On(const KeptReleased& event, std::int64_t, Actions& out) {
  cache_.Release(event.key, out);
  EndPauseIfAllSucceeded();
}

void HandlerCore::EndPauseIfAllSucceeded() {
  if (!cache_.IsSupplying() && !cache_.HasFailedSupplies()) EndPause();
}

void HandlerCore::EndPause() {
  supply_again_us_ = tuplespace::kForeverUs;
  supply_pause_us_ = 0;
}

void HandlerCore::SupplyFailedAgain(std::int64_t now_us, Actions& out) {
  if (now_us < supply_again_us_) return;
  supply_again_us_ = tuplespace::kForeverUs;
  cache_.SupplyFailedAgain(out);
}

void HandlerCore::NoteIdle(std::int64_t now_us) {
  if (!flights_.empty() || !cache_.OwesWhatWasNotTried()) {
    idle_until_us_ = tuplespace::kForeverUs;
  } else if (idle_until_us_ == tuplespace::kForeverUs) {
    idle_until_us_ = now_us + std::max(kIdleUs, kIdleSupplies * link_.UsFor(cache_.owed_bytes()));
  }
}

std::int64_t HandlerCore::NextSupplyUs() const {
  return cache_.IsSupplying() ? tuplespace::kForeverUs : idle_until_us_;
}

void HandlerCore::SupplyWhenIdle(std::int64_t now_us, Actions& out) {
  if (now_us >= NextSupplyUs()) cache_.SupplySome(kSuppliedAtOnceBytes, out);
}

}  // namespace acan
