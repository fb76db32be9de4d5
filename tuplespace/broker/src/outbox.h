// Outbox: what a broker sends to its clients: through a client's channel if it has one, else
// through the socket; what finds no room waits, in order.
//
// One thread owns it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "channel_table.h"
#include "sockets.h"

namespace tuplespace {

class Outbox {
 public:
  // The clients that a message's receiver shares a limit with.
  struct Group {
    std::string_view name;  // of their key; empty: there is no limit
    std::uint64_t limit_bytes = UINT64_MAX;
  };
  // `limit_bytes`: what may wait for one client when it is sent something more.
  Outbox(zmq::socket_t& router, ChannelTable& channels, std::uint64_t limit_bytes)
      : router_(router), channels_(channels), limit_bytes_(limit_bytes) {}

  // `session` 0: it has none yet; then it gets this at once or never. Returns why the client must
  // be given up, if so.
  std::optional<std::string> Send(const ClientId& client, std::uint64_t session,
                                  std::span<const std::byte> control, std::vector<Payload> payloads,
                                  const Group& group);
  bool Waits(const ClientId& client) const { return waiting_.contains(client); }
  bool empty() const { return waiting_.empty(); }
  void Forget(const ClientId& client);
  // Something was given to the socket since the last call.
  bool TakeUsedSocket() { return std::exchange(used_socket_, false); }
  // Sends what waits. Those whose connection has ended are returned; `knows`: who has not.
  std::vector<ClientId> Retry(const std::function<bool(const ClientId&)>& knows);

 private:
  struct Message {
    std::uint64_t session = 0;
    Multipart multipart;
  };
  struct Queue {
    std::deque<Message> messages;
    std::uint64_t bytes = 0;
    std::string group;
    std::uint64_t UnsentBytes() const;  // less what ZeroMQ has taken of the first
  };
  // What waits for the clients of a group.
  struct Account {
    std::uint64_t bytes = 0;
    std::uint64_t since_look = 0;  // bytes that came since their memory was added up
  };
  using Queues = std::unordered_map<ClientId, Queue>;

  SendResult SendNow(const ClientId& client, std::uint64_t session,
                     std::span<const std::byte> control, std::span<const Payload> payloads,
                     SendProgress& progress);

  // Whether the memory that a group's messages take would be over its limit with `bytes` more.
  bool IsOver(const Group& group, std::uint64_t bytes);
  // Of this process, for what waits for a group.
  std::uint64_t MemoryOf(const std::string& group) const;
  void Charge(Queue& queue, const Group& group, std::uint64_t bytes);
  void Uncharge(const Queue& queue, std::uint64_t bytes);
  Queues::iterator Erase(Queues::iterator queue);

  zmq::socket_t& router_;
  ChannelTable& channels_;
  const std::uint64_t limit_bytes_;
  Queues waiting_;
  std::unordered_map<std::string, Account> groups_;  // for which something waits
  bool used_socket_ = false;
};

}  // namespace tuplespace
