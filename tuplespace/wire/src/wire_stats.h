// The single list of the fields of Stats, which encoder and decoder use.
#pragma once

// COUNTER(name) for the fields of Counters, GAUGE(name) for those of Stats.
// clang-format would nest the rows.
// clang-format off
#define TUPLESPACE_STATS(COUNTER, GAUGE)                                                          \
  COUNTER(puts) COUNTER(duplicates) COUNTER(conflicts) COUNTER(retired_puts) COUNTER(reads)       \
  COUNTER(gets) COUNTER(grants) COUNTER(completed) COUNTER(stale) COUNTER(leases_expired)         \
  COUNTER(leases_returned) COUNTER(released) COUNTER(failed) COUNTER(parked) COUNTER(busy)     \
  COUNTER(bad_requests) COUNTER(affinity_hits) COUNTER(steals) COUNTER(bytes_in)                  \
  COUNTER(bytes_out) GAUGE(tuples) GAUGE(payload_bytes) GAUGE(tasks_waiting) GAUGE(tasks_ready)   \
  GAUGE(tasks_leased) GAUGE(tasks_parked) GAUGE(open_reads) GAUGE(open_gets) GAUGE(clients)       \
  GAUGE(held_keys) COUNTER(refused_connections) COUNTER(failed_connections)                       \
  COUNTER(refused_requests) COUNTER(messages) COUNTER(requests) COUNTER(stayed) COUNTER(wanted)   \
  COUNTER(lost) COUNTER(refused_results) COUNTER(false_completions) COUNTER(benched)          \
  GAUGE(unix_us) COUNTER(placed) COUNTER(placed_bytes) GAUGE(known_keys)                          \
  COUNTER(no_payload_room) COUNTER(no_tuple_room)
// clang-format on
