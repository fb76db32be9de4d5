// LinkPace: how long bytes take to leave this handler, as supplies showed. Pure; a part of
// HandlerCore.
#pragma once

#include <cstdint>

namespace acan {

class LinkPace {
 public:
  LinkPace() { Begin(false); }
  // A new connection. Until something was seen, bytes that travel do so at 1 Gbit/s, and others
  // leave the device at 2 GB/s.
  void Begin(bool bytes_travel);
  // A result of so many bytes was supplied in this time, which may include waiting for others.
  void Note(std::uint64_t bytes, std::int64_t took_us);

  std::int64_t UsFor(std::uint64_t bytes) const;
  // Of a link; 0: there is none.
  std::uint32_t ns_per_kib() const { return travels_ ? ns_per_kib_ : 0; }

 private:
  bool travels_ = false;
  bool seen_ = false;  // the pace is not assumed any more
  std::uint32_t ns_per_kib_ = 0;
};

}  // namespace acan
