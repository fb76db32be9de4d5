// The place of a benchmark's servers, which are brokers and bare ZeroMQ sockets: over inproc in a
// thread, over ipc and tcp in a forked process.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <zmq.hpp>

#include "temporary_folder.h"
#include "tuplespace/access.h"
#include "tuplespace/client.h"

namespace acan::bench {

// The longest wait of a benchmark's clients; incoming messages wake them earlier.
constexpr std::chrono::seconds kPollTime{10};

// Something that serves at an endpoint until it is destroyed.
class Server {
 public:
  virtual ~Server() = default;
  const std::string& endpoint() const { return endpoint_; }

 protected:
  std::string endpoint_;
};

// Keys for a broker and its clients.
struct Keys {
  tuplespace::KeyPair broker = tuplespace::MakeKeyPair();
  tuplespace::KeyPair client = tuplespace::MakeKeyPair();

  tuplespace::BrokerAccess ForBroker() const;
  tuplespace::ClientAccess ForClient() const;
};

// The servers of one transport. Throws std::invalid_argument for an unknown transport,
// std::runtime_error if a server cannot be started.
class Place {
 public:
  explicit Place(const std::string& transport, std::optional<Keys> keys = {});

  std::unique_ptr<Server> StartBroker();
  // A bare ROUTER. A message of one frame returns to its sender. A message of two frames goes to
  // the client whose routing id is the first frame.
  std::unique_ptr<Server> StartForwarder();
  // `pool`: for payloads that are made in place.
  std::unique_ptr<tuplespace::Client> Connect(const Server& server,
                                              std::shared_ptr<tuplespace::SharedPool> pool = {},
                                              bool shared_memory = true);
  zmq::context_t& context() { return context_; }

 private:
  std::string NextEndpoint();

  std::string transport_;
  std::optional<Keys> keys_;
  TemporaryFolder folder_;
  zmq::context_t context_;
  int servers_ = 0;
};

}  // namespace acan::bench
