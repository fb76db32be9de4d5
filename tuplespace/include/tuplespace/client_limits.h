// How much of a space one client may use. A role has its own (access.h); who joins without a key has
// the widest, as it may do everything anyway.
#pragma once

#include <cstdint>

namespace tuplespace {

struct ClientLimits {
  // Tuples that it put itself and that are there, and their payloads; results of tasks that it held
  // do not count, they are the task's.
  std::uint64_t tuples = UINT64_MAX;
  std::uint64_t payload_bytes = UINT64_MAX;
  std::uint64_t open_requests = UINT64_MAX;  // Reads and Gets that wait, Counts and Lists at work
  std::uint64_t open_patterns = UINT64_MAX;  // of its waiting Reads, all together
  std::uint64_t leases = UINT64_MAX;
  std::uint64_t tuples_per_request = UINT64_MAX;  // also patterns, keys and grants
  // What it put itself goes when it is lost: nobody else would remove it.
  bool leaves_nothing = false;
};

}  // namespace tuplespace
