// LinkProbe: measures the link to the broker when a handler joins, by payloads that it puts one
// after the other, each larger than the one before, until one takes long enough. The best of some
// of that size counts. Pure: whoever uses it sends what it asks for, and says when the broker had
// it.
//
// Handlers that join at the same time share the broker's link. So they measure one after the other,
// in an order that their marks in the space give. Each says that it waits. When nobody measures and
// nobody with a smaller id waits, it says that it measures, and looks again: two that looked at the
// same moment see each other's mark then, and the one with the larger id waits again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tuplespace/key.h"

namespace acan {

// Numbers in ProbeKey. Larger ones are of the bytes that are sent.
inline constexpr std::int64_t kMeasures = 0;
inline constexpr std::int64_t kWaitsToMeasure = 1;
enum class ProbeTurn : std::uint8_t {
  kWait,
  kClaim,  // say that it measures, and look again
  kMeasure,
};
// `probes`: the keys of all probes that are in the space. `id`: of the client that asks. `claims`:
// it has said that it measures, and has not begun.
ProbeTurn TurnOf(const std::vector<tuplespace::Key>& probes, const std::string& id, bool claims);

class LinkProbe {
 public:
  // The size of the next payload, at most kMostBytes; nullopt: enough is known.
  static constexpr std::uint64_t kMostBytes = 4 << 20;
  std::optional<std::uint64_t> Next() const;
  // The broker has answered the put of Next() bytes after this time.
  void Note(std::int64_t took_us);

  std::uint32_t round_trip_us() const { return round_trip_us_; }  // 0: not measured
  std::uint32_t ns_per_kib() const { return ns_per_kib_; }        // 0: not measured

 private:
  int small_ = 0;            // of those that tell the round trip
  std::uint64_t bytes_ = 0;  // of the last large one
  int largest_ = 0;          // of the largest size
  bool is_enough_ = false;
  std::uint32_t round_trip_us_ = 0;
  std::uint32_t ns_per_kib_ = 0;
};

}  // namespace acan
