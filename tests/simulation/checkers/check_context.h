// What the checkers of one broker share: whom they tell, and who has a key.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "tuplespace/client_limits.h"
#include "tuplespace/messages.h"
#include "tuplespace/space.h"

namespace acan::simulation {

struct CheckContext {
  std::function<void(const std::string&)> report;
  // These clients have a key, and with it these limits; the others have none. May be null.
  std::function<bool(const tuplespace::ClientId&)> have_key;
  tuplespace::ClientLimits limits_of_key = {};
  // These do what they like; of the others, good behaviour is expected. May be null.
  std::function<bool(const tuplespace::ClientId&)> is_hostile = nullptr;

  bool IsLimited(const tuplespace::ClientId& client) const { return have_key && have_key(client); }
  bool IsHostile(const tuplespace::ClientId& client) const {
    return is_hostile && is_hostile(client);
  }
};

inline constexpr tuplespace::SpaceLimits kLimits;  // of every broker here

// How many times as long as a task asks for a client may extend its lease: at least, and at most
// where somebody else could take the task, as is known for sure or not.
struct Extensions {
  std::int64_t least = 1;
  std::int64_t most = kLimits.lease_extensions;
  bool another_could_take = false;
};

// `duration_us` after `now_us`, or the last time that there is.
inline std::int64_t After(std::int64_t now_us, std::int64_t duration_us) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return duration_us < kMost - now_us ? now_us + duration_us : kMost;
}

}  // namespace acan::simulation
