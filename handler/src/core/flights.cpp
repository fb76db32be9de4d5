#include "acan/handler/flights.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace acan {

Flight* Flights::Find(FlightId id) {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : &at->second;
}

bool Flights::DeviceIsIdle() const {
  return std::none_of(by_id_.begin(), by_id_.end(), [](const auto& entry) {
    return entry.second.phase == Flight::Phase::kQueued;
  });
}

Flight& Flights::Add(FlightId id, Flight&& flight) {
  assert(flight.leaving_bytes == 0);
  ++working_;
  working_flops_ += flight.flops;
  charged_bytes_ += flight.charge_bytes;
  resident_bytes_ += flight.resident_bytes;
  return by_id_.emplace(id, std::move(flight)).first->second;
}

void Flights::SetCharge(Flight& flight, std::uint64_t bytes) {
  charged_bytes_ = charged_bytes_ - flight.charge_bytes + bytes;
  flight.charge_bytes = bytes;
}

void Flights::EndWork(Flight& flight) {
  assert(working_ > 0 && flight.phase != Flight::Phase::kSending);
  --working_;
  working_flops_ -= flight.flops;
  resident_bytes_ -= std::exchange(flight.resident_bytes, 0);
}

void Flights::SetLeaving(Flight& flight, std::uint64_t bytes) {
  leaving_bytes_ = leaving_bytes_ - flight.leaving_bytes + bytes;
  flight.leaving_bytes = bytes;
}

Flights::ById::iterator Flights::Erase(ById::const_iterator at) {
  charged_bytes_ -= at->second.charge_bytes;
  leaving_bytes_ -= at->second.leaving_bytes;
  return by_id_.erase(at);
}

}  // namespace acan
