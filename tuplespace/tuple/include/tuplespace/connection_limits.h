// Limits of the tcp connections of a broker, or of a client that listens.
#pragma once

#include <cstdint>

namespace tuplespace {

// Limits of tcp connections, before and after authentication. A connection that exceeds a limit is
// closed and counted; at intervals a log line reports it: one in 10 s for an address, and for all
// of them 16 at once and then one a second.
struct ConnectionLimits {
  // In total; fewer if the process may not open that many descriptors. At this limit and the next
  // one, an older connection over which no message has come is closed for a new one. If there is
  // none, the new one is closed.
  std::uint64_t connections = 4096;
  std::uint64_t connections_per_address = 512;
  std::int64_t handshake_us = 10'000'000;  // the time until a handshake must be done
  // How many bytes of an unfinished message a connection may have sent. Checked four times a
  // second, so more may arrive between checks.
  std::uint64_t unfinished_bytes = 4ull << 30;
  // How many bytes the unfinished messages of all clients of one key may have together. Beyond it,
  // the client with the largest message loses its session.
  std::uint64_t unfinished_bytes_of_key = 4ull << 30;
  // If the space has less room for payloads than that, the limit is this room, but at least this.
  // So what cannot be stored yet takes little memory besides what is stored.
  std::uint64_t least_unfinished_bytes_of_key = 4ull << 30;
  // The bytes that one tcp connection may have sent and nobody has read yet.
  std::uint64_t unread_bytes = 1ull << 30;
  // The same for all connections together, checked four times a second. Beyond it, those with the
  // most are closed, and before them those with more than 64 KiB over which no message has come.
  std::uint64_t unread_bytes_of_all = 4ull << 30;
};

}  // namespace tuplespace
