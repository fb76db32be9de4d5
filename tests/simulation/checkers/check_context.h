// What the checkers of one broker share: the callback for findings, and which clients have a key.
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
  // Whether a client has the key, to which these limits apply. Other clients have no key. May be
  // null.
  std::function<bool(const tuplespace::ClientId&)> have_key;
  tuplespace::ClientLimits limits_of_key = {};
  // Whether a client is hostile; all others must behave well. May be null.
  std::function<bool(const tuplespace::ClientId&)> is_hostile = nullptr;
  // Whether a tuple belongs to a manager whose tasks are judged apart. May be null.
  std::function<bool(const tuplespace::Key&)> is_judged_apart = nullptr;

  bool IsLimited(const tuplespace::ClientId& client) const { return have_key && have_key(client); }
  bool IsHostile(const tuplespace::ClientId& client) const {
    return is_hostile && is_hostile(client);
  }
  bool IsJudgedApart(const tuplespace::Key& key) const {
    return is_judged_apart && is_judged_apart(key);
  }
};

inline constexpr tuplespace::SpaceLimits kLimits;  // of every simulated broker

// By how many multiples of its task's lease time a client may extend a lease. `least` holds always.
// `most` holds if another client could take the task; `another_could_take` is true if that is
// certain.
struct Extensions {
  std::int64_t least = 1;
  std::int64_t most = kLimits.lease_extensions;
  bool another_could_take = false;
};

// `duration_us` after `now_us`, clamped to the largest value.
inline std::int64_t After(std::int64_t now_us, std::int64_t duration_us) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return duration_us < kMost - now_us ? now_us + duration_us : kMost;
}

}  // namespace acan::simulation
