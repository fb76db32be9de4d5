// Broker: serves one Space over ZeroMQ. A single-threaded ROUTER loop; it never copies a payload.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuplespace/access.h"
#include "tuplespace/connection_limits.h"
#include "tuplespace/space.h"

namespace zmq {
class context_t;
}

namespace tuplespace {

struct BrokerOptions {
  // ipc:// paths, inproc:// names, and tcp:// ("tcp://127.0.0.1:*" picks a free port): without
  // `access` on loopback only, as anybody may connect then. An ipc socket gets mode 0600; what a
  // dead broker left at its path is replaced, a live broker is not.
  std::vector<std::string> listen;
  // Only clients with one of these keys may connect, at any address, and do what their role allows.
  // Everything is encrypted then (CURVE). Not for inproc://, which knows no keys.
  std::optional<BrokerAccess> access = {};
  ConnectionLimits connections;
  SpaceLimits limits;
  std::int64_t client_silence_us = 10'000'000;  // a client not heard for this long is lost
  std::uint64_t control_frame_bytes = 64ull << 20;
  // What may wait for a client that does not read; who is sent something beyond it is dropped.
  // One message may be longer. As much may wait of a client that sends faster than it is served,
  // and twice as much of all clients; who sends more tuples is told to send them again later.
  std::uint64_t client_queue_bytes = 2ull << 30;
  // Compare every payload that is put with its hash, and refuse it (kDamaged) if they differ.
  // Without this the consumers find out, for a fraction of the cost.
  bool check_payloads = false;
  // Payloads of clients that can share memory with this process stay where they were put, and are
  // mapped by their readers. At most so many segments, and a third of the files that this process
  // may open; 0: none, all bytes travel.
  std::uint64_t shared_segments = 30'000;
  zmq::context_t* context = nullptr;                 // shared for inproc; null: one of its own
  std::function<void(const std::string& line)> log;  // rare events, one line each; may be null
};

class Broker {
 public:
  // Binds. Throws std::invalid_argument for a refused or malformed address (the text says why),
  // std::runtime_error when the address cannot be bound.
  // Also std::invalid_argument for `access` that makes no sense, std::runtime_error if its context
  // has another broker with keys.
  explicit Broker(BrokerOptions options);
  ~Broker();  // says goodbye to its clients, unlinks its ipc paths
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  const std::vector<std::string>& endpoints() const;  // as bound, with real ports

  void Run();   // serves until Stop()
  void Stop();  // thread safe, async-signal safe
  // Replaces the list of access: who is not on it any more, or has another role or limit, is sent
  // away at once. (So is who is on the list when the time of its key is over, within a second.)
  // Thread safe. Throws std::invalid_argument if the list makes no sense: then nothing changes.
  // REQUIRES: there is `access`.
  void SetPeers(const std::vector<AllowedPeer>& peers);
  Stats GetStatistics() const;  // REQUIRES: called on Run's thread or while it does not run

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tuplespace
