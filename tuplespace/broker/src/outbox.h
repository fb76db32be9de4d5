// Outbox: sends a broker's messages to its clients, through a client's channel if it has one,
// otherwise through the socket. Messages that find no room wait in order.
//
// For one thread.
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
  // The clients with which a message's receiver shares a limit.
  struct Group {
    std::string_view name;  // the name of their key; empty: there is no limit
    std::uint64_t limit_bytes = UINT64_MAX;
  };
  // `limit_bytes`: how much may wait for one client when another message is sent to it.
  Outbox(zmq::socket_t& router, ChannelTable& channels, std::uint64_t limit_bytes)
      : router_(router), channels_(channels), limit_bytes_(limit_bytes) {}

  // `session` 0: the client has none yet; then it gets this message now or never. Returns why the
  // client must be lost, if so.
  std::optional<std::string> Send(const ClientId& client, std::uint64_t session,
                                  std::span<const std::byte> control, std::vector<Payload> payloads,
                                  const Group& group);
  bool Waits(const ClientId& client) const { return waiting_.contains(client); }
  bool empty() const { return waiting_.empty(); }
  void Forget(const ClientId& client);
  // Whether something was passed to the socket since the last call.
  bool TakeUsedSocket() { return std::exchange(used_socket_, false); }
  // Sends waiting messages: through channels at once, through the socket only if its last such try
  // is kSocketRetryUs ago. Otherwise a broker would not rest while any client reads slowly. Returns
  // the clients whose connection has ended, or for which `knows` is false.
  std::vector<ClientId> Retry(const std::function<bool(const ClientId&)>& knows,
                              std::int64_t now_us);
  static constexpr std::int64_t kSocketRetryUs = 1'000;

  struct Lost {
    ClientId client;
    std::string why;
  };
  // The clients that must be lost, those with the largest memory first, because the messages for
  // their group take more than its limit. Messages may take more memory without being added to: the
  // other owners of their payloads let go. Looks once a second, or less often if there are many
  // messages.
  std::vector<Lost> TakeOverLimit(std::int64_t now_us);

 private:
  struct Message {
    std::uint64_t session = 0;
    Multipart multipart;
  };
  struct Queue {
    std::deque<Message> messages;
    std::uint64_t bytes = 0;
    std::string group;
    std::uint64_t UnsentBytes() const;  // without what ZeroMQ has taken of the first message
  };
  // The messages that wait for the clients of a group.
  struct Account {
    std::uint64_t bytes = 0;
    std::uint64_t limit_bytes = UINT64_MAX;
    std::uint64_t since_look = 0;  // bytes added since their memory was last computed
  };
  using Queues = std::unordered_map<ClientId, Queue>;

  // The channel through which this message goes; null: it goes through the socket.
  Channel* ChannelFor(const ClientId& client, std::uint64_t session,
                      std::span<const std::byte> control, std::span<const Payload> payloads,
                      const SendProgress& progress);
  SendResult SendNow(const ClientId& client, std::uint64_t session,
                     std::span<const std::byte> control, std::span<const Payload> payloads,
                     SendProgress& progress);

  // Whether the memory of a group's messages would exceed its limit with `bytes` more.
  bool IsOver(const Group& group, std::uint64_t bytes);
  // The memory of this process that the waiting messages of a group, or of a client, take.
  std::uint64_t MemoryOf(const std::string& group) const;
  static std::uint64_t MemoryOf(const Queue& queue);
  void AddOverLimit(const std::string& group, std::uint64_t limit_bytes, std::vector<Lost>* lost,
                    std::uint64_t* looked_at) const;
  void Charge(Queue& queue, const Group& group, std::uint64_t bytes);
  void Uncharge(const Queue& queue, std::uint64_t bytes);
  Queues::iterator Erase(Queues::iterator queue);

  zmq::socket_t& router_;
  ChannelTable& channels_;
  const std::uint64_t limit_bytes_;
  Queues waiting_;
  std::unordered_map<std::string, Account> groups_;  // groups with waiting messages
  std::int64_t next_look_us_ = INT64_MIN;            // of TakeOverLimit
  std::int64_t next_socket_retry_us_ = INT64_MIN;
  bool used_socket_ = false;
};

}  // namespace tuplespace
