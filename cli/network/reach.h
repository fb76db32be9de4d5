// Whether anything answers at an endpoint. This is tested below ZeroMQ, which retries silently.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace acan::cli {

struct Reach {
  std::string address;                 // "10.0.0.7:5555", or the path of a socket; empty: unknown
  std::optional<std::string> no_name;  // why the host has no address
  std::optional<std::string> problem;  // why the connection to the address failed
  double connect_ms = 0;               // time until the connection was established
};

// Looks up the host of `endpoint` (tcp://HOST:PORT or ipc://PATH, checked) and connects to it once,
// waiting for at most `patience`. The lookup takes as long as the resolver does. Any thread.
Reach TryToReach(const std::string& endpoint, std::chrono::milliseconds patience);

}  // namespace acan::cli
