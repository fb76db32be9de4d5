// How much of a space one client may use. A role has its own (access.h); who joins without a key
// has the widest, as it may do everything anyway.
#pragma once

#include <cstdint>

namespace tuplespace {

struct ClientLimits {
  // Of its ephemeral tuples, and of their payloads. Results of tasks do not count: they are the
  // task's.
  std::uint64_t own_tuples = UINT64_MAX;
  std::uint64_t own_payload_bytes = UINT64_MAX;
  std::uint64_t open_requests = UINT64_MAX;  // Reads and Gets that wait, Lists and Counts at work
  std::uint64_t open_patterns = UINT64_MAX;  // of its waiting Reads, all together
  std::uint64_t open_pattern_bytes = UINT64_MAX;  // the memory that these take
  // The same of all clients of its key together; patterns of waiting Reads that are no whole keys;
  // and keys of which one that comes would end a Read, as each may take the place of a tuple.
  std::uint64_t open_pattern_bytes_of_key = UINT64_MAX;
  std::uint64_t read_patterns_of_key = UINT64_MAX;
  std::uint64_t watched_keys_of_key = UINT64_MAX;
  // Different patterns of Gets, of all clients of its key together.
  std::uint64_t get_patterns_of_key = UINT64_MAX;
  // The broker's memory that answers take which clients of its key do not read, all together.
  std::uint64_t unread_bytes_of_key = UINT64_MAX;
  std::uint64_t leases = UINT64_MAX;
  std::uint64_t per_request = UINT64_MAX;  // tuples, patterns, keys or grants of one request
  // What it puts is ephemeral, whatever it says: nobody else would remove it.
  bool leaves_nothing = false;
};

}  // namespace tuplespace
