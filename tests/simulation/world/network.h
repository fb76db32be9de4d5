// Network: what ZeroMQ and the wires under it promise, and what they do not.
//
// Within a connection messages arrive whole, once and in order, late by anything. A connection that
// ends takes with it what was under way, from some message on, in both directions; each end hears
// of that at a time of its own. A DEALER connects again by itself, and sends what it was given
// meanwhile: so a message may be lost while a later one of the same session arrives. What was under
// way over an ended connection may arrive after what came over the next one. Nothing is ever
// duplicated but by who sends it again.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuplespace/payload.h"
#include "world/world.h"

namespace acan::simulation {

struct Frames {
  std::vector<std::byte> control;
  std::vector<tuplespace::Payload> payloads;
  // The sender's memory, which it may have to itself again when the message has left.
  std::vector<tuplespace::Payload> originals;
  std::optional<bool> leads;  // what it says to a manager about the lead, if anything
};

class Network;

// One DEALER of a client, or the PAIR of its monitor.
class Socket final : public Waitable {
 public:
  explicit Socket(Network* network) : network_(network) {}
  bool ready() const override { return !inbox.empty() || disconnected > 0; }

  std::string routing_id;
  std::deque<Frames> inbox;
  Socket* monitor = nullptr;  // told of connections that end
  int disconnected = 0;       // as a monitor: not told yet
  bool lingers = false;       // what was sent before it is closed still arrives

 private:
  friend class Network;
  Network* const network_;
  std::weak_ptr<Socket> self_;
  Process* process_ = nullptr;
  std::shared_ptr<class Connection> connection_;
  std::deque<Frames> pipe_;  // while there is no connection
};

class Connection {
 public:
  const std::string& client() const { return client_; }
  Process* process() const { return process_; }
  bool heard = false;  // by the broker, ever
  bool up() const { return up_; }

 private:
  friend class Network;
  struct Direction {
    struct Message {
      std::int64_t arrives_us;
      Frames frames;
    };
    std::deque<Message> queue;
    std::int64_t last_us = 0;  // when the last one arrives
    std::int64_t stalled_until_us = 0;
    bool pumping = false;
  };
  std::string client_;
  Process* process_ = nullptr;
  std::weak_ptr<Socket> socket_;
  std::uint64_t broker_life_ = 0;
  bool up_ = true;
  Direction to_broker_, to_client_;
};

// The broker's end.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual bool listening() const = 0;
  virtual std::uint64_t life() const = 0;  // which of the brokers it is
  virtual void OnFrames(const std::shared_ptr<Connection>& from, Frames&& frames) = 0;
  virtual void OnConnectionEnded(const std::shared_ptr<Connection>& connection) = 0;
};

struct NetworkConditions {
  std::int64_t least_delay_us = 100;
  std::int64_t most_delay_us = 2'000;
  std::uint64_t one_late_in = 0;  // messages; 0: none is very late
  std::int64_t very_late_us = 10'000'000;
  std::uint64_t unreachable_one_in = 6;  // links between clients; 1: no client reaches another
};

class Network {
 public:
  explicit Network(World& world) : world_(world) {}

  NetworkConditions conditions;

  // Between clients, past the broker: how many payloads arrived, and how many could not be fetched.
  struct Direct {
    std::uint64_t fetched = 0, failed = 0;
  };
  void CountFetch(bool arrived) { ++(arrived ? direct_.fetched : direct_.failed); }
  const Direct& direct() const { return direct_; }

  void SetListener(Listener* listener) { listener_ = listener; }

  // ---- the client's side -----------------------------------------------------------------------
  std::shared_ptr<Socket> Open(Process& process);
  void Connect(Socket& socket);
  void Close(Socket& socket);
  void Send(Socket& socket, Frames&& frames);

  // ---- the broker's side -----------------------------------------------------------------------
  void Send(Connection& connection, Frames&& frames);
  void BrokerDied();  // every connection to it ends

  // ---- faults ----------------------------------------------------------------------------------
  enum class Way : std::uint8_t { kToBroker, kToClient };
  std::vector<std::shared_ptr<Connection>> Up() const;
  // The connection ends. Each side keeps what had arrived there, a random part of what was under
  // way. `heard_by_client_us`, `heard_by_broker_us`: until each of them notices.
  void Break(const std::shared_ptr<Connection>& connection, std::int64_t heard_by_client_us,
             std::int64_t heard_by_broker_us);
  // Nothing gets through this way for a while; then what waited does.
  void Stall(const std::shared_ptr<Connection>& connection, Way way, std::int64_t duration_us);
  void ProcessDied(Process& process);  // its connections end, and what it had not sent is lost

 private:
  void Attempt(const std::shared_ptr<Socket>& socket);
  void Queue(const std::shared_ptr<Connection>& connection, Way way, Frames&& frames);
  void Pump(const std::shared_ptr<Connection>& connection, Way way);
  void Deliver(const std::shared_ptr<Connection>& connection, Way way, Frames&& frames);
  void LosePart(Connection::Direction& direction);
  std::shared_ptr<Connection> Find(const Connection& connection) const;

  World& world_;
  Listener* listener_ = nullptr;
  Direct direct_;
  std::vector<std::shared_ptr<Socket>> sockets_;
  std::vector<std::shared_ptr<Connection>> connections_;  // that are up
};

}  // namespace acan::simulation
