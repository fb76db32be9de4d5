#include "tuplespace/clock.h"

#include <chrono>

namespace tuplespace {

std::int64_t MonotonicUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace tuplespace
