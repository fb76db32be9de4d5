// The limits of a space, and how far it trusts its clients.
#pragma once

#include <cstdint>

#include "tuplespace/messages.h"

namespace tuplespace {

// Every limit has a name. A request that would exceed one is answered kBusy (it may succeed later)
// or kTooLarge / kBadRequest (it never will), and the text names the limit.
struct SpaceLimits {
  std::uint64_t tuples = 4'000'000;
  // With what the keys of tuples take beyond some 1 KiB a tuple: the own key, and the keys and
  // clients that a task names.
  std::uint64_t payload_bytes = 16ull << 30;
  std::uint64_t message_bytes = 1ull << 30;  // of a single payload
  std::uint64_t clients = 4096;
  std::uint64_t open_requests_per_client = 1024;
  std::uint64_t open_patterns_per_client = 262'144;  // of waiting Reads
  std::uint64_t tuples_per_request = 65'536;
  std::uint64_t task_inputs = 4096;
  std::uint64_t task_exclusions = 64;  // of TaskSpec::not_by
  std::uint64_t task_results = 4096;   // of TaskSpec::results
  // Of one answer to a Get: how many tuples it grants, with the inputs of granted tasks, and what
  // their keys take as part of `payload_bytes`. So whatever tasks others put, the answer can be
  // sent (kMaxPayloadFrames, kMaxControlBytes). A single grant may have more.
  std::uint64_t granted_tuples = 65'536;
  std::uint64_t granted_key_bytes = 64ull << 20;
  std::uint64_t held_keys_per_client = 65'536;
  std::uint64_t get_patterns = 256;    // different patterns with an open Get, without whole keys
  std::uint64_t get_keys = 4096;       // different whole keys with an open Get
  std::uint64_t read_patterns = 4096;  // different patterns with an open Read, without whole keys
  // Keys that Reads wait for. Each may take a record, so the other three quarters of `tuples`
  // remain for tuples that are put.
  std::uint64_t watched_keys = 1'000'000;
  // The clients of one key whose role leaves nothing (ClientLimits) may together have one in this
  // many of `tuples`, and of `payload_bytes`, as tuples of their own: however many of them there
  // are, they cannot fill the space. Honest ones put a few small tuples each.
  std::uint64_t own_part_of_key = 4;
  // The cost of a new pattern to the clients of one key, or to one client without a key: this time
  // for each tuple that is examined to add the pattern, and ten times this time for each tuple that
  // it moves. A client that owes more than a second cannot add another one.
  std::int64_t examined_by_get_us = 1;
  // The maximum number of tuples examined to answer one Read.
  std::uint64_t examined_by_read = 65'536;
  // When matching tuples come, the space examines patterns and tuples for a waiting Read. Without
  // a match, it examines at most (patterns + 1) times this number; then the Read ends with an
  // error, and the client must send it again.
  std::uint64_t examined_without_match = 16;
  std::uint64_t examined_at_once = 4096;  // to begin a List or Count
  std::uint64_t examined_by_slice = 512;  // to continue it, between requests of others
  std::uint64_t watermarks = 65'536;  // beyond that, the one that was raised longest ago is dropped
  // A task is parked if it failed this often and all connected clients have failed on it, or if it
  // failed this often without the failures of the key that reported most. So no key alone can park
  // a task that others could do.
  std::uint32_t task_failures = 3;
  // If one of the connected clients has a key and might be hostile, the clients try this many more
  // times, with pauses as long as benches (ten minutes in all), before the task is parked. A client
  // that joins meanwhile may take the task at once.
  std::uint32_t rounds_alone = 16;
  std::int64_t default_lease_us = 10'000'000;
  std::int64_t max_lease_us = 3'600'000'000;
  std::int64_t steal_after_us = 2'000;           // how long a ready task waits for its holder,
  std::int64_t most_steal_after_us = 3'000'000;  // or as long as its tuple takes to travel
  std::int64_t most_prefer_us = 30'000'000;      // for the client that the task names
  // Payloads of at least this size are read from their maker even if the space has them
  // (Read::direct).
  std::uint64_t least_kept_bytes = kMinKeptBytes;
  // A client that was asked for payloads that stay with it, and has neither supplied any nor been
  // sending a large message for this long, has lost them.
  std::int64_t supply_us = 60'000'000;
  // A client that leaves nothing (ClientLimits) and reads a payload without holding a task with it
  // must not cause that loss. It is asked for, but may be late, and only while less than this was
  // asked for of one client in this way.
  std::uint64_t asked_ahead_bytes = 64ull << 20;

  // ---- trust: a client that keeps tasks from others gets none for a while, if others could do
  // them

  // If another client could take a task, its lease can be extended up to this many times the lease
  // that the task asks for. Leases that run out lengthen the next one at most that far. A new
  // client of a key may extend less until it has completed a task, and each bench of a client (for
  // a new one, of its key) halves the maximum.
  std::int64_t lease_extensions = 8;
  std::int64_t untried_extensions = 2;
  std::uint32_t tasks_in_vain = 4;        // this many failed or expired in a row lead to a bench
  std::uint32_t returns_in_vain = 2;      // this many given back count as one of these
  std::int64_t first_bench_us = 500'000;  // doubles each time
  std::int64_t most_bench_us = 60'000'000;
  std::uint32_t forgiven_after = 32;  // completed tasks for each bench
  // A new client starts with the benches of its key's other clients, less one for each such period.
  std::int64_t key_forgiven_us = 300'000'000;
};

}  // namespace tuplespace
