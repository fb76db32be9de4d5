// ChannelTable: the broker's ends of its channels, by client and session. The broker reads a
// client's channel once the client has proven to be a process of this host (segment_table.h). It
// sends through the channel once the client has used it, as both ends then certainly exist.
//
// For one thread.
#pragma once

#include <climits>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "channel.h"
#include "envelope.h"

namespace tuplespace {

class ChannelTable {
 public:
  // `limit`: the maximum number of channels, as every turn checks each. `wake_fd`: the pipe by
  // which clients wake this thread.
  ChannelTable(std::size_t limit, int wake_fd) : limit_(limit), wake_fd_(wake_fd) {}

  // `client` has joined with this offer. Adds the Welcome's information about a channel to
  // `answer`. A repeated call for the same session only repeats that.
  void Joined(const ClientId& client, std::uint64_t session, const Sharing& offer, Sharing& answer);
  // The client has proven to be a process of this host. It was heard over `connection`, and `user`
  // is the authenticator's name for it.
  void Proven(const ClientId& client, const std::string& user, int connection);
  void SessionEnded(const ClientId& client, std::uint64_t session);

  // A message of this session came through the socket. REQUIRES: messages that were sent before it
  // were handled first: see Read.
  void CountReceived(const ClientId& client, std::uint64_t session);
  // The channel for messages to the client; null: use the socket.
  Channel* To(const ClientId& client, std::uint64_t session);
  void CountSent(const ClientId& client, std::uint64_t session);

  // Calls handle(message) for each message that has come from `client` so far, or for at most
  // `most` messages of each client. Returns how many there were. `handle` may neither add nor end
  // sessions.
  template <class Handle>
  int Read(const ClientId& client, Handle handle);
  template <class Handle>
  int ReadAll(int most, Handle handle);

  // Clients that wrote invalid data into their channels.
  std::vector<ClientId> Broken() const;

  bool empty() const { return entries_.empty(); }
  void BeginSleep();
  bool HasInput() const;
  void EndSleep();

 private:
  struct Entry {
    std::uint64_t session = 0;
    std::unique_ptr<Channel> channel;
    bool proven = false;
    bool used = false;  // the client has used it
    std::string user;
    int connection = -1;
  };

  Entry* Find(const ClientId& client, std::uint64_t session);
  template <class Handle>
  int ReadEntry(const ClientId& client, Entry& entry, int most, Handle& handle);

  const std::size_t limit_;
  const int wake_fd_;
  std::unordered_map<ClientId, Entry> entries_;
  ReceivedMultipart message_;
};

template <class Handle>
int ChannelTable::ReadEntry(const ClientId& client, Entry& entry, int most, Handle& handle) {
  if (!entry.proven) return 0;
  int count = 0;
  for (const std::uint64_t end = entry.channel->input_end();
       count < most && entry.channel->input_position() < end && entry.channel->Receive(message_);
       ++count) {
    entry.used = true;
    message_.routing_id = client;
    message_.user = entry.user;
    message_.connection = entry.connection;
    handle(message_);
  }
  return count;
}

template <class Handle>
int ChannelTable::Read(const ClientId& client, Handle handle) {
  const auto it = entries_.find(client);
  return it == entries_.end() ? 0 : ReadEntry(client, it->second, INT_MAX, handle);
}

template <class Handle>
int ChannelTable::ReadAll(int most, Handle handle) {
  int count = 0;
  for (auto& [client, entry] : entries_) count += ReadEntry(client, entry, most, handle);
  return count;
}

}  // namespace tuplespace
