// Whether anything answers at an endpoint. This is tested below ZeroMQ, which retries silently.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <string>

namespace acan::cli {

struct Place {
  std::string address;                 // "10.0.0.7:5555", or the path of a socket; empty: unknown
  std::optional<std::string> no_name;  // why the host has no address
  sockaddr_storage socket{};           // the first address of the host, as ZeroMQ would use it
  socklen_t socket_bytes = 0;
};

struct Reach {
  std::optional<std::string> problem;  // why the connection to the address failed
  double connect_ms = 0;               // time until the connection was established
};

// Looks up the host of `endpoint` (tcp://HOST:PORT or ipc://PATH, checked). That takes as long as
// the resolver does. Any thread.
Place FindPlace(const std::string& endpoint);
// Connects once, waits for at most `patience`, and closes the connection without a word. A broker
// counts and logs that as a failed connection. REQUIRES: !place.no_name. Any thread.
Reach TryToReach(const Place& place, std::chrono::milliseconds patience);

}  // namespace acan::cli
