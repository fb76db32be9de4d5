// What the tcp connections of a broker, or of a client that listens, may do.
#pragma once

#include <cstdint>

namespace tuplespace {

// What tcp connections may do before anybody knows who they are, and authenticated ones as well. A
// connection that passes a limit is ended, counted, and logged once in a while.
struct ConnectionLimits {
  // In all; fewer if the process may not have so many descriptors.
  std::uint64_t connections = 4096;
  std::uint64_t connections_per_address = 512;
  std::int64_t handshake_us = 10'000'000;  // until a handshake is done
  // Received of a message without its end. Looked at four times a second, so what arrives in that
  // time comes on top.
  std::uint64_t unfinished_bytes = 4ull << 30;
  // Received of messages without their end, of all clients of one key together. The client with the
  // largest such message loses its session.
  std::uint64_t unfinished_bytes_of_key = 4ull << 30;
  // Bytes that one connection may have sent and nobody has looked at yet, over tcp.
  std::uint64_t unread_bytes = 1ull << 30;
  // The same for all connections together. The connection with the most of them is ended.
  std::uint64_t unread_bytes_of_all = 4ull << 30;
};

}  // namespace tuplespace
