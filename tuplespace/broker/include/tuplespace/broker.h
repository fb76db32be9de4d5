// Broker: serves one Space over ZeroMQ. A single-threaded ROUTER loop that never copies a payload.
#pragma once

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

// StopSoon() serves on while a client has leased a tuple that matches `while_leased`, because that
// client needs the space to finish in an orderly way.
struct BrokerLinger {
  Pattern while_leased;
  std::int64_t most_us = 0;  // no longer than this
  std::string why;           // for the log, after the client: "leads a job"
};

struct BrokerOptions {
  // ipc:// paths, inproc:// names, and tcp:// addresses ("tcp://127.0.0.1:*" picks a free port).
  // Without `access`, tcp is allowed on loopback only, as everyone may connect then. An ipc socket
  // gets mode 0600. A socket that a dead broker left at its path is replaced; that of a live broker
  // is not.
  std::vector<std::string> listen;
  // Only clients with one of these keys may connect, at any address, and do what their role allows.
  // Everything is then encrypted (CURVE). Not for inproc://, which has no keys.
  std::optional<BrokerAccess> access = {};
  ConnectionLimits connections;
  SpaceLimits limits;
  std::uint64_t clients_per_key = 1024;
  // The space begins with these plain tuples, which are empty and belong to no client: locks that
  // clients borrow (ClientLimits::borrow_us).
  std::vector<Key> first_tuples = {};
  std::int64_t client_silence_us = 10'000'000;  // a client that is silent for this long is lost
  std::uint64_t control_frame_bytes = 64ull << 20;
  // How much may wait for a client that does not read; if another message is sent to it beyond
  // that, the client is dropped. A single message may be longer.
  std::uint64_t client_queue_bytes = 2ull << 30;
  // How much may wait of a client that sends faster than it is served; twice as much of all
  // clients. A client that sends more tuples is told to send them again later.
  std::uint64_t waiting_bytes = 2ull << 30;
  // Compares every payload that is put with its hash and refuses it (kDamaged) if they differ.
  // Without this, the consumers find out, at a fraction of the cost. Roles may demand it of some
  // clients (ClientLimits::checks_payloads).
  bool check_payloads = false;
  // Payloads of clients that can share memory with this process stay where they were put, and their
  // readers map them. The maximum number of segments, further limited to a third of this process's
  // descriptor limit. 0: none, all payloads are sent as bytes.
  std::uint64_t shared_segments = 30'000;
  std::optional<BrokerLinger> linger = {};  // without it, StopSoon() is Stop()
  zmq::context_t* context = nullptr;        // shared for inproc; null: the broker makes its own
  std::function<void(const std::string& line)> log;  // rare events, one line each; may be null
};

// How many tcp connections a broker of this process could have: each may take two of the files that
// the process may open, and each of `shared_segments` takes one.
std::uint64_t PossibleConnections(std::uint64_t shared_segments);

class Broker {
 public:
  // Binds. Throws std::invalid_argument for a refused or malformed address (the text says why) and
  // for inconsistent `access`. Throws std::runtime_error if the address cannot be bound, or if the
  // context has another broker with keys.
  explicit Broker(BrokerOptions options);
  ~Broker();  // says goodbye to its clients, unlinks its ipc paths
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  const std::vector<std::string>& endpoints() const;  // as bound, with real ports

  void Run();       // serves until Stop() or StopSoon()
  void Stop();      // thread safe, async-signal safe
  void StopSoon();  // see BrokerLinger; thread safe, async-signal safe
  // Replaces the access list. Clients that are not on it any more, or have another role or limit,
  // are disconnected at once. (Clients whose key ends are disconnected within a second.) Thread
  // safe. Throws std::invalid_argument if the list is inconsistent; then nothing changes. REQUIRES:
  // `access` is set.
  void SetPeers(const std::vector<AllowedPeer>& peers);
  Stats GetStatistics() const;  // REQUIRES: called on Run's thread or while it does not run

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tuplespace
