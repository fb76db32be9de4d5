// LinkProbe: measures the link to the broker when a handler joins. It puts payloads one after the
// other, each larger than the one before, until one takes long enough, and then takes the best of a
// few of that size. Pure: the caller sends the payloads and reports when the broker has received
// them.
//
// Handlers that join at the same time share the broker's link, so each measures only while it holds
// ProbeTurnKey() under a lease.
#pragma once

#include <cstdint>
#include <optional>

namespace acan {

class LinkProbe {
 public:
  // The size of the next payload, at most kMaxBytes; nullopt: the measurement is complete.
  static constexpr std::uint64_t kMaxBytes = 4 << 20;
  std::optional<std::uint64_t> Next() const;
  // The broker answered the put of Next() bytes after this time.
  void Note(std::int64_t took_us);

  std::uint32_t round_trip_us() const { return round_trip_us_; }  // 0: not measured
  std::uint32_t ns_per_kib() const { return ns_per_kib_; }        // 0: not measured

 private:
  int small_ = 0;            // number of probes for the round trip
  std::uint64_t bytes_ = 0;  // of the last large probe
  int largest_ = 0;          // number of probes of the largest size
  bool is_enough_ = false;
  std::uint32_t round_trip_us_ = 0;
  std::uint32_t ns_per_kib_ = 0;
};

}  // namespace acan
