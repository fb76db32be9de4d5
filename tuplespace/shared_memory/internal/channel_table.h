// ChannelTable: a broker's ends of its channels, by client and session. A client's messages are
// read from one once it has proven to be a process of this host (segment_table.h), and it is sent
// messages through it once it has used it itself: then both ends are there for certain.
//
// One thread owns it.
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
  // At most so many channels: each is looked at in every turn. `wake_fd`: the pipe through
  // which clients wake this thread up.
  ChannelTable(std::size_t limit, int wake_fd) : limit_(limit), wake_fd_(wake_fd) {}

  // `client` has joined with this offer: adds what its Welcome says of a channel to `answer`.
  // Calling it again for the same session only repeats that.
  void Joined(const ClientId& client, std::uint64_t session, const Sharing& offer, Sharing& answer);
  // It is a process of this host; it was heard over `connection`, and the authenticator calls it
  // `user`.
  void Proven(const ClientId& client, const std::string& user, int connection);
  void SessionEnded(const ClientId& client, std::uint64_t session);

  // A message of this session came through the socket. What was sent before it must be handled
  // first: see Read.
  void CountReceived(const ClientId& client, std::uint64_t session);
  // Where messages to it go; null: through the socket.
  Channel* To(const ClientId& client, std::uint64_t session);
  void CountSent(const ClientId& client, std::uint64_t session);

  // Calls handle(message) for what has come from `client` until now, or for `most` from each of
  // all; returns how many there were. `handle` may neither add sessions nor end them.
  template <class Handle>
  int Read(const ClientId& client, Handle handle);
  template <class Handle>
  int ReadAll(int most, Handle handle);

  // Clients whose end wrote what it should not.
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
    bool used = false;  // by the client
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
