// LinkProbe: measures the link to the broker when a handler joins, by payloads that it puts one
// after the other, each larger than the one before, until one takes long enough. Pure: whoever uses
// it sends what it asks for, and says when the broker had it.
#pragma once

#include <cstdint>
#include <optional>

namespace acan {

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
  bool is_enough_ = false;
  std::uint32_t round_trip_us_ = 0;
  std::uint32_t ns_per_kib_ = 0;
};

}  // namespace acan
