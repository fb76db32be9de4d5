#include "acan/handler/lease_extensions.h"

namespace acan {

void LeaseExtensions::ExtendDue(Flights& flights, std::int64_t now_us, StepActions& out) {
  if (now_us < check_us_) return;
  check_us_ = tuplespace::kForeverUs;
  const bool device_is_idle = flights.DeviceIsIdle();
  for (auto& [id, flight] : flights.by_id()) {
    if (flight.timed || flight.phase == Flight::Phase::kSending) continue;
    if (now_us >= flight.extend_at_us) {
      flight.extend_at_us = now_us + flight.lease_us / 2;
      if (device_is_idle || now_us - progress_us_ < kPatienceLeases * flight.lease_us) {
        out.Add(ExtendLease{flight.lease, flight.lease_us});
      }
    }
    check_us_ = std::min(check_us_, flight.extend_at_us);
  }
}

}  // namespace acan
