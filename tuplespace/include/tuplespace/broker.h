// Broker: serves one Space over ZeroMQ. A single-threaded ROUTER loop; it never copies a payload.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tuplespace/space.h"

namespace zmq {
class context_t;
}

namespace tuplespace {

struct BrokerOptions {
  // ipc:// paths, inproc:// names, and tcp:// on loopback only ("tcp://127.0.0.1:*" picks a free
  // port). An ipc socket gets mode 0600; what a dead broker left at its path is replaced, a live
  // broker is not. Any other address is refused until there are keys: nobody is authenticated yet.
  std::vector<std::string> listen;
  SpaceLimits limits;
  std::int64_t client_silence_us = 10'000'000;  // a client not heard for this long is lost
  std::uint64_t control_frame_bytes = 64ull << 20;
  // What may wait for a client that does not read; beyond it the client is dropped.
  std::uint64_t client_queue_bytes = 2ull << 30;
  zmq::context_t* context = nullptr;                 // shared for inproc; null: one of its own
  std::function<void(const std::string& line)> log;  // rare events, one line each; may be null
};

class Broker {
 public:
  // Binds. Throws std::invalid_argument for a refused or malformed address (the text says why),
  // std::runtime_error when the address cannot be bound.
  explicit Broker(BrokerOptions options);
  ~Broker();  // says goodbye to its clients, unlinks its ipc paths
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  const std::vector<std::string>& endpoints() const;  // as bound, with real ports

  void Run();                   // serves until Stop()
  void Stop();                  // thread safe, async-signal safe
  Stats GetStatistics() const;  // REQUIRES: called on Run's thread or while it does not run

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tuplespace
