// Network: simulates the guarantees of ZeroMQ and of the connections under it, and no others.
//
// Within a connection messages arrive whole, once and in order, after any delay. When a connection
// ends, the messages under way from some point on are lost in both directions, and each end notices
// that at its own time. A DEALER reconnects by itself and then sends the messages that were queued
// meanwhile. So a message may be lost while a later one of the same session arrives. Messages of an
// ended connection may arrive after messages of the next one. Nothing is duplicated unless its
// sender sends it again.
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
  // The sender's memory, which becomes exclusively its own again once the message has left.
  std::vector<tuplespace::Payload> originals;
  std::optional<bool> leads;  // what the message tells a manager about the lead, if anything
};

class Network;

// A client's DEALER, or the PAIR of its monitor.
class Socket final : public Waitable {
 public:
  explicit Socket(Network* network) : network_(network) {}
  bool ready() const override { return !inbox.empty() || disconnected > 0; }

  std::string routing_id;
  std::deque<Frames> inbox;
  Socket* monitor = nullptr;  // gets the ends of connections
  int disconnected = 0;       // for a monitor: ends not yet reported
  bool lingers = false;       // messages sent before the close still arrive

 private:
  friend class Network;
  Network* const network_;
  std::weak_ptr<Socket> self_;
  Process* process_ = nullptr;
  std::shared_ptr<class Connection> connection_;
  std::deque<Frames> pipe_;  // messages sent while there is no connection
};

class Connection {
 public:
  const std::string& client() const { return client_; }
  Process* process() const { return process_; }
  bool heard = false;  // whether the broker ever got a message from it
  bool up() const { return up_; }

 private:
  friend class Network;
  struct Direction {
    struct Message {
      std::int64_t arrives_us;
      Frames frames;
    };
    std::deque<Message> queue;
    std::int64_t last_us = 0;  // when the last queued message arrives
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

// The broker's end of connections.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual bool listening() const = 0;
  virtual std::uint64_t life() const = 0;  // number of the current broker
  virtual void OnFrames(const std::shared_ptr<Connection>& from, Frames&& frames) = 0;
  virtual void OnConnectionEnded(const std::shared_ptr<Connection>& connection) = 0;
};

struct NetworkConditions {
  std::int64_t least_delay_us = 100;
  std::int64_t most_delay_us = 2'000;
  std::uint64_t one_late_in = 0;  // messages; 0: none is very late
  std::int64_t very_late_us = 10'000'000;
  std::uint64_t unreachable_one_in = 6;  // links between clients; 1: none reaches another
};

class Network {
 public:
  explicit Network(World& world) : world_(world) {}

  NetworkConditions conditions;

  // Direct transfers between clients: how many payloads arrived, and how many fetches failed.
  struct Direct {
    std::uint64_t fetched = 0, failed = 0;
  };
  void CountFetch(bool arrived) { ++(arrived ? direct_.fetched : direct_.failed); }
  const Direct& direct() const { return direct_; }

  void SetListener(Listener* listener) { listener_ = listener; }

  // ---- client side ------------------------------------------------------------------------------
  std::shared_ptr<Socket> Open(Process& process);
  void Connect(Socket& socket);
  void Close(Socket& socket);
  void Send(Socket& socket, Frames&& frames);

  // ---- broker side ------------------------------------------------------------------------------
  void Send(Connection& connection, Frames&& frames);
  void BrokerDied();  // all its connections end

  // ---- faults ----------------------------------------------------------------------------------
  enum class Way : std::uint8_t { kToBroker, kToClient };
  std::vector<std::shared_ptr<Connection>> Up() const;
  // Ends the connection. Each side still gets a random part of the messages under way.
  // `heard_by_client_us`, `heard_by_broker_us`: the time until each of them notices the end.
  void Break(const std::shared_ptr<Connection>& connection, std::int64_t heard_by_client_us,
             std::int64_t heard_by_broker_us);
  // Holds back all messages in one direction for a while.
  void Stall(const std::shared_ptr<Connection>& connection, Way way, std::int64_t duration_us);
  void ProcessDied(Process& process);  // ends its connections; unsent messages are lost

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
  std::vector<std::shared_ptr<Connection>> connections_;  // the open ones
};

}  // namespace acan::simulation
