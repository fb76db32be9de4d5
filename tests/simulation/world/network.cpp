#include "world/network.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace acan::simulation {
namespace {

// ZeroMQ's reconnect interval, as the product sets it (sockets.cpp).
constexpr std::int64_t kReconnectUs = 10'000;
constexpr std::int64_t kMaxReconnectUs = 500'000;

}  // namespace

std::shared_ptr<Socket> Network::Open(Process& process) {
  auto socket = std::make_shared<Socket>(this);
  socket->process_ = &process;
  socket->self_ = socket;
  sockets_.push_back(socket);
  return socket;
}

void Network::Connect(Socket& socket) {
  world_.After(world_.random().Between(100, 2'000), [this, weak = socket.self_] {
    if (const auto open = weak.lock()) Attempt(open);
  });
}

void Network::Attempt(const std::shared_ptr<Socket>& socket) {
  if (socket->connection_ || !socket->process_->alive()) return;
  if (listener_ == nullptr || !listener_->listening() || socket->process_->stopped()) {
    world_.After(world_.random().Between(kReconnectUs, kMaxReconnectUs),
                 [this, weak = socket->self_] {
                   if (const auto open = weak.lock()) Attempt(open);
                 });
    return;
  }
  auto connection = std::make_shared<Connection>();
  connection->client_ = socket->routing_id;
  connection->process_ = socket->process_;
  connection->socket_ = socket;
  connection->broker_life_ = listener_->life();
  socket->connection_ = connection;
  connections_.push_back(connection);
  for (Frames& frames : std::exchange(socket->pipe_, {})) {
    Queue(connection, Way::kToBroker, std::move(frames));
  }
}

void Network::Close(Socket& socket) {
  const std::shared_ptr<Connection> connection = socket.connection_;
  if (connection && connection->up_) {
    const std::int64_t lingers_us = socket.lingers ? connection->to_broker_.last_us : 0;
    std::deque<Connection::Direction::Message> rest;
    if (socket.lingers) rest.swap(connection->to_broker_.queue);
    Break(connection, kNever,
          std::max<std::int64_t>(0, lingers_us - world_.now_us()) +
              world_.random().Magnitude(200, 50'000));
    for (auto& message : rest) message.frames.originals.clear();
    if (socket.lingers) connection->to_broker_.queue.swap(rest);
  }
  socket.connection_.reset();
  socket.pipe_.clear();
  std::erase_if(sockets_, [&](const auto& open) { return open.get() == &socket; });
}

void Network::Send(Socket& socket, Frames&& frames) {
  if (!socket.process_->alive()) return;
  if (!socket.connection_) {
    socket.pipe_.push_back(std::move(frames));
    return;
  }
  // If the connection's end was not noticed yet, the message is lost.
  if (socket.connection_->up_) Queue(socket.connection_, Way::kToBroker, std::move(frames));
}

void Network::Send(Connection& connection, Frames&& frames) {
  if (!connection.up_) return;
  if (const auto found = Find(connection)) Queue(found, Way::kToClient, std::move(frames));
}

std::shared_ptr<Connection> Network::Find(const Connection& connection) const {
  for (const auto& each : connections_) {
    if (each.get() == &connection) return each;
  }
  return nullptr;
}

void Network::Queue(const std::shared_ptr<Connection>& connection, Way way, Frames&& frames) {
  Connection::Direction& direction =
      way == Way::kToBroker ? connection->to_broker_ : connection->to_client_;
  std::int64_t delay_us =
      world_.random().Magnitude(conditions.least_delay_us, conditions.most_delay_us);
  if (conditions.one_late_in != 0 && world_.random().OneIn(conditions.one_late_in)) {
    delay_us = world_.random().Magnitude(conditions.most_delay_us, conditions.very_late_us);
  }
  direction.last_us = std::max(direction.last_us, world_.now_us() + delay_us);
  direction.queue.push_back({direction.last_us, std::move(frames)});
  if (!direction.pumping) Pump(connection, way);
}

// Delivers the messages that are due, and schedules itself for the next one.
void Network::Pump(const std::shared_ptr<Connection>& connection, Way way) {
  Connection::Direction& direction =
      way == Way::kToBroker ? connection->to_broker_ : connection->to_client_;
  direction.pumping = true;
  while (!direction.queue.empty()) {
    const std::int64_t due_us =
        std::max(direction.queue.front().arrives_us, direction.stalled_until_us);
    if (due_us > world_.now_us()) {
      world_.At(due_us, [this, connection, way] { Pump(connection, way); });
      return;
    }
    Frames frames = std::move(direction.queue.front().frames);
    direction.queue.pop_front();
    Deliver(connection, way, std::move(frames));
  }
  direction.pumping = false;
}

void Network::Deliver(const std::shared_ptr<Connection>& connection, Way way, Frames&& frames) {
  frames.originals.clear();
  if (way == Way::kToBroker) {
    if (listener_ == nullptr || listener_->life() != connection->broker_life_) return;
    listener_->OnFrames(connection, std::move(frames));
    return;
  }
  const std::shared_ptr<Socket> socket = connection->socket_.lock();
  if (!socket || socket->connection_ != connection || !socket->process_->alive()) return;
  socket->inbox.push_back(std::move(frames));
  socket->Notify();
}

// The messages that are kept have left their sender for good.
void Network::LosePart(Connection::Direction& direction) {
  const std::size_t kept = world_.random().Below(direction.queue.size() + 1);
  while (direction.queue.size() > kept) direction.queue.pop_back();
  for (auto& message : direction.queue) message.frames.originals.clear();
}

void Network::Break(const std::shared_ptr<Connection>& connection, std::int64_t heard_by_client_us,
                    std::int64_t heard_by_broker_us) {
  if (!connection->up_) return;
  connection->up_ = false;
  std::erase(connections_, connection);
  LosePart(connection->to_broker_);
  LosePart(connection->to_client_);
  if (heard_by_broker_us != kNever) {
    world_.After(heard_by_broker_us, [this, connection] {
      if (listener_ != nullptr && listener_->life() == connection->broker_life_) {
        listener_->OnConnectionEnded(connection);
      }
    });
  }
  if (heard_by_client_us == kNever) return;
  world_.After(heard_by_client_us, [this, connection] {
    const std::shared_ptr<Socket> socket = connection->socket_.lock();
    if (!socket || socket->connection_ != connection) return;
    socket->connection_.reset();
    if (socket->monitor != nullptr) {
      ++socket->monitor->disconnected;
      socket->monitor->Notify();
    }
    Connect(*socket);
  });
}

void Network::Stall(const std::shared_ptr<Connection>& connection, Way way,
                    std::int64_t duration_us) {
  Connection::Direction& direction =
      way == Way::kToBroker ? connection->to_broker_ : connection->to_client_;
  direction.stalled_until_us = std::max(direction.stalled_until_us, world_.now_us() + duration_us);
}

std::vector<std::shared_ptr<Connection>> Network::Up() const {
  return connections_;
}

void Network::BrokerDied() {
  for (const auto& connection : std::vector(connections_)) {
    Break(connection, world_.random().Magnitude(100, 20'000), kNever);
  }
}

void Network::ProcessDied(Process& process) {
  for (const auto& connection : std::vector(connections_)) {
    if (connection->process_ == &process) {
      Break(connection, kNever, world_.random().Magnitude(200, 1'000'000));
    }
  }
  for (const auto& socket : sockets_) {
    if (socket->process_ != &process) continue;
    socket->pipe_.clear();
    socket->connection_.reset();
  }
}

}  // namespace acan::simulation
