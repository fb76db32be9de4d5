// HandlerCore: results that stay on the device.
#include <cstdint>

#include "acan/handler/handler_core.h"
#include "acan/handler/planted.h"

namespace acan {

bool HandlerCore::MayBeResident(std::uint64_t bytes) const {
  if (bytes == 0 || draining_) return false;
  const std::uint64_t taken = owed_.bytes() + flights_.resident_bytes() + MostNeeded();
  return taken <= limit_bytes_ && bytes <= limit_bytes_ - taken;
}

void HandlerCore::On(const KeptWanted& event, std::int64_t, StepActions& out) {
  if (!owed_.BeginSupply(event.key)) return;
  if (IsPlanted(HandlerBug::kKeptIsNotSupplied)) return;
  out.Add(SupplyKept{event.key});
}

void HandlerCore::On(const KeptSupplied& event, std::int64_t, StepActions&) {
  const auto entry = cache_.entries().find(event.key);
  if (entry != cache_.entries().end()) link_.Note(entry->second.bytes, event.took_us);
  if (owed_.End(event.key)) cache_.EndOwed(event.key);
}

// Who asks is told in the end that it is lost; a handler that leaves does not wait for that.
void HandlerCore::On(const SupplyFailed& event, std::int64_t now_us, StepActions&) {
  if (!draining_) {
    owed_.FailSupply(event.key, now_us);
  } else if (owed_.End(event.key)) {
    cache_.EndOwed(event.key);
  }
}

void HandlerCore::On(const EarlierReleased& event, std::int64_t, StepActions& out) {
  owed_.StopSupply(event.key);
  if (draining_) owed_.SupplyAll(out);
}

void HandlerCore::On(const KeptReleased& event, std::int64_t, StepActions& out) {
  if (owed_.End(event.key)) cache_.Release(event.key, out);
}

}  // namespace acan
