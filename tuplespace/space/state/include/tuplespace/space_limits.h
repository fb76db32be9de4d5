// What a space takes at most, and how far it trusts its clients.
#pragma once

#include <cstdint>

namespace tuplespace {

// Every limit has a name; a request that would pass one is answered kBusy (it may succeed later) or
// kTooLarge / kBadRequest (it never will), and the text names the limit.
struct SpaceLimits {
  std::uint64_t tuples = 4'000'000;
  std::uint64_t payload_bytes = 16ull << 30;
  std::uint64_t message_bytes = 1ull << 30;  // of one tuple's payload
  std::uint64_t clients = 4096;
  std::uint64_t open_requests_per_client = 1024;
  std::uint64_t open_patterns_per_client = 262'144;  // of Reads that wait
  std::uint64_t tuples_per_request = 65'536;
  std::uint64_t task_inputs = 4096;
  std::uint64_t task_exclusions = 64;  // of TaskSpec::not_by
  std::uint64_t task_results = 4096;   // of TaskSpec::results
  std::uint64_t held_keys_per_client = 65'536;
  std::uint64_t get_patterns = 256;    // different patterns with an open Get
  std::uint64_t read_patterns = 4096;  // different patterns, not whole keys, with an open Read
  // Keys that Reads wait for. Each may take a record, so the other three quarters of `tuples` are
  // for what is put.
  std::uint64_t watched_keys = 1'000'000;
  // What a pattern costs the clients of one key, or one client without a key: so much time for each
  // tuple that is looked at to begin it, ten times as much for each that it moves. Who owes more
  // than a second begins no other one.
  std::int64_t looked_at_by_get_us = 1;
  // Tuples that are looked at to answer one Read; to begin a List or Count, which then goes on by
  // slices between the requests of others.
  std::uint64_t looked_at_by_read = 65'536;
  // While a Read waits, its patterns are looked at again when tuples come that it names: so often
  // for each of them, and for one more, in vain. Then its client has to send it again, which is
  // work of that client.
  std::uint64_t looked_at_in_vain = 16;
  std::uint64_t looked_at_at_once = 4096;
  std::uint64_t looked_at_by_slice = 512;
  std::uint64_t watermarks = 65'536;  // of more the one goes that was raised longest ago
  // A task is parked if it failed so often and nobody is there on whom it did not fail, or if it
  // failed so often without counting the key that failed it most: no key can park it beside others.
  std::uint32_t task_failures = 3;
  // Where one of those that are there has a key, and might be hostile, they try so often again,
  // with pauses as long as benches (ten minutes in all), before the task is parked. Whoever joins
  // meanwhile may take the task at once.
  std::uint32_t rounds_alone = 16;
  std::int64_t default_lease_us = 10'000'000;
  std::int64_t max_lease_us = 3'600'000'000;
  std::int64_t steal_after_us = 2'000;           // a ready task waits this long for its holder,
  std::int64_t most_steal_after_us = 3'000'000;  // or as long as the tuple takes to leave it
  std::int64_t most_prefer_us = 30'000'000;      // for the client that it names
  // A payload that is here is read from its maker if it is as long (Read::direct).
  std::uint64_t least_kept_bytes = kLeastKeptBytes;
  // Who was asked for payloads that stay with it and has supplied none for so long has lost them.
  std::int64_t supply_us = 60'000'000;

  // ---- trust: a client that keeps tasks from others gets none for a while, if others are there

  // A lease of a task can be extended until it lasted so many times as long as the task asks for,
  // if somebody else could take the task. Leases that run out make the next one no longer than
  // that. A new client of a key may extend less until it has completed a task, and each bench of a
  // client (of a new one, of its key) halves what it may.
  std::int64_t lease_extensions = 8;
  std::int64_t untried_extensions = 2;
  std::uint32_t tasks_in_vain = 4;        // so many in a row failed or ran out: then it is benched
  std::uint32_t returns_in_vain = 2;      // so many given back at once count as one of these
  std::int64_t first_bench_us = 500'000;  // twice as long each time
  std::int64_t most_bench_us = 60'000'000;
  std::uint32_t forgiven_after = 32;  // completed tasks for each time
  // A new client begins with the benches of its key's other clients, less one for each such time.
  std::int64_t key_forgiven_us = 300'000'000;
};

}  // namespace tuplespace
