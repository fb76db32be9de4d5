// LinkPace: how long bytes take to leave this handler, as supplies showed. Pure; a part of
// HandlerCore.
#pragma once

#include <cstdint>

namespace acan {

class LinkPace {
 public:
  // A new connection. Until something was seen, bytes that travel do so at 1 Gbit/s; others are
  // handed over at once.
  void Begin(bool bytes_travel);
  // A result of so many bytes was supplied in this time, which may include waiting for others.
  void Note(std::uint64_t bytes, std::int64_t took_us);

  std::int64_t UsFor(std::uint64_t bytes) const;
  // 0: not worth mentioning.
  std::uint32_t ns_per_kib() const { return ns_per_kib_; }

 private:
  bool travels_ = false;
  bool seen_ = false;  // the pace is not assumed any more
  std::uint32_t ns_per_kib_ = 0;
};

}  // namespace acan
