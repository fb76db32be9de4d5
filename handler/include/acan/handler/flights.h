// Flights: the tasks that a handler has taken, from grant to release, and the sums over them that
// decisions need after every event. Pure; a part of HandlerCore.
//
//   kFetching --> kQueued --> kSending     the phases of a flight; its work ends with kQueued
//
// A flight's memory, its charge, does not include the cache entries that it uses (handler_core.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "acan/handler/device_cache.h"
#include "acan/handler/handler_events.h"
#include "tuplespace/key.h"
#include "tuplespace/messages.h"

namespace acan {

struct Flight {
  enum class Phase : std::uint8_t { kFetching, kQueued, kSending };
  // A cache entry that it uses: an input, or a result that has not left.
  struct Pinned {
    DeviceCache::Pinned entry;
    std::size_t input = 0;  // for an input: its index
    bool whole = true;      // false: a piece that exists beside its copy
  };

  Phase phase = Phase::kQueued;
  tuplespace::LeaseRef lease;
  std::int64_t granted_us = 0;
  std::int64_t lease_us = 0;
  std::int64_t extend_at_us = 0;
  bool timed = false;  // its lease is the job's own time limit
  std::uint64_t flops = 0;
  std::uint64_t need_bytes = 0;
  std::uint64_t charge_bytes = 0;    // its part of Flights::charged_bytes()
  std::uint64_t resident_bytes = 0;  // its part of Flights::resident_bytes()
  std::uint64_t leaving_bytes = 0;   // its part of Flights::leaving_bytes()
  std::vector<Pinned> pinned;
  std::optional<KeptResult> input_to_keep;
  // As in TaskGranted, if inputs that arrive are kept.
  std::vector<tuplespace::Key> inputs;
  std::vector<bool> whole;
  std::vector<std::uint64_t> right_bytes;
  std::uint64_t kept_from_bytes = UINT64_MAX;
};

class Flights {
 public:
  using ById = std::map<FlightId, Flight>;  // in the order of grants

  bool empty() const { return by_id_.empty(); }
  const ById& by_id() const { return by_id_; }
  ById& by_id() { return by_id_; }
  // Numbers from 1 every grant, also one that goes back and is never added.
  FlightId NextId() { return next_id_++; }
  FlightId last_id() const { return next_id_ - 1; }
  Flight* Find(FlightId id);  // null: it has ended

  // Sums over all flights.
  std::uint64_t charged_bytes() const { return charged_bytes_; }
  std::uint64_t leaving_bytes() const { return leaving_bytes_; }  // of results, also of cached ones
  // Sums over the flights whose work has not ended.
  int working() const { return working_; }
  std::uint64_t working_flops() const { return working_flops_; }
  std::uint64_t resident_bytes() const { return resident_bytes_; }  // of results that will stay
  // No flight has all its inputs and waits for the device or runs on it.
  bool DeviceIsIdle() const;

  // Its work begins. The reference is valid until the flight is erased. REQUIRES: its leaving_bytes
  // are 0.
  Flight& Add(FlightId id, Flight&& flight);
  void SetCharge(Flight& flight, std::uint64_t bytes);
  // It was computed, or will not be computed here: its results are made, or never will be, and its
  // resident_bytes count no longer. REQUIRES: called once, before kSending.
  void EndWork(Flight& flight);
  void SetLeaving(Flight& flight, std::uint64_t bytes);
  // Returns the next one. REQUIRES: its work has ended.
  ById::iterator Erase(ById::const_iterator at);
  void Erase(FlightId id) { Erase(by_id_.find(id)); }

 private:
  ById by_id_;
  FlightId next_id_ = 1;
  std::uint64_t charged_bytes_ = 0;
  std::uint64_t leaving_bytes_ = 0;
  int working_ = 0;
  std::uint64_t working_flops_ = 0;
  std::uint64_t resident_bytes_ = 0;
};

}  // namespace acan
