// ConnectionProbes: when to find out whose connection has ended. After one was seen to end, ZeroMQ
// may need a moment until its routing id is gone, so it is tried a few times, with growing pauses.
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
  // Whether it is time for one, which counts as done then.
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
