// LinkPace: estimates, from earlier supplies, how long bytes take to leave this handler. Pure; a
// part of HandlerCore.
#pragma once

#include <cstdint>

namespace acan {

class LinkPace {
 public:
  LinkPace() { Begin(false); }
  // A new connection. Until a supply was observed, the estimate is 1 Gbit/s over a link and 2 GB/s
  // otherwise.
  void Begin(bool bytes_travel);
  // A result of this size was supplied in this time, which may include waiting for others.
  void Note(std::uint64_t bytes, std::int64_t took_us);

  std::int64_t UsFor(std::uint64_t bytes) const;
  // For a link; 0: there is none.
  std::uint32_t ns_per_kib() const { return travels_ ? ns_per_kib_ : 0; }

 private:
  bool travels_ = false;
  bool seen_ = false;  // a supply was observed
  std::uint32_t ns_per_kib_ = 0;
};

}  // namespace acan
