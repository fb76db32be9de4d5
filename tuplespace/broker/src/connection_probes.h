// ConnectionProbes: when to find out which client's connection has ended. After a connection was
// seen to end, ZeroMQ may take a moment to forget its routing id, so there are several probes with
// growing pauses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "tuplespace/messages.h"

namespace tuplespace {

class ConnectionProbes {
 public:
  void Begin(std::int64_t now_us) {
    next_ = 0;
    began_at_us_ = now_us;
  }
  bool active() const { return next_ < kProbes; }
  std::int64_t NextUs() const { return active() ? began_at_us_ + kDelaysUs[next_] : kForeverUs; }
  // Whether a probe is due, which then counts as done.
  bool Take(std::int64_t now_us) {
    if (now_us < NextUs()) return false;
    ++next_;
    return true;
  }

 private:
  static constexpr std::int64_t kDelaysUs[] = {0, 1'000, 4'000, 16'000, 64'000, 256'000, 1'000'000};
  static constexpr std::size_t kProbes = std::size(kDelaysUs);

  std::size_t next_ = kProbes;
  std::int64_t began_at_us_ = 0;
};

}  // namespace tuplespace
