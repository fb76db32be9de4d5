// The speed of the tuple space with its broker: small tuples per second, latency, and bytes per
// second of large payloads, over inproc (a broker thread), ipc and tcp (a broker process).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace acan::bench {

struct SpaceBenchOptions {
  std::vector<std::string> transports = {"inproc", "ipc", "tcp"};
  int repeats = 5;                                // at least 5: medians and spreads are reported
  int small_tuples = 100'000;                     // of 100 bytes, for each repeat of a rate
  int round_trips = 2'000;                        // for each repeat of a latency
  bool curve = false;                             // only compare clear text with CURVE, over tcp
  std::size_t bulk_bytes = std::size_t{1} << 30;  // moved in each repeat of a bandwidth
};

// Runs for some seconds. For each transport:
// - `put_get_pairs_per_s`: a put, a get and its completion of one tuple, one request each, from two
//   pipelined clients;
// - `put_get_pairs_per_s_batched`: the same with 32 tuples in each put and get;
// - `round_trip_us`: p50 and p99 of a put; of a value's way to another client and its answer's way
//   back; of a bare ZeroMQ ROUTER echo of as many bytes; and of two threads that wake each other
//   through pipes;
// - `put_read` of payloads of 1 MiB and 16 MiB (one client puts, another reads), against one copy
//   and a bare ZeroMQ hop.
// With `curve`, instead, over tcp: `put_read_gb_per_s` in clear text and with keys, in pairs of
// runs, and their ratio; and the put's `round_trip_us` of both. Every number is an object {median,
// min, max, repeats}. Forks; throws std::invalid_argument for an unknown transport,
// std::runtime_error if a broker cannot be started.
nlohmann::json RunSpaceBench(const SpaceBenchOptions& options);

}  // namespace acan::bench
