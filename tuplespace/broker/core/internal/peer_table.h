// PeerTable: the clients that have joined a broker, their sessions, and the messages for each.
//
// Not thread safe; for one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "envelope.h"
#include "tuplespace/access.h"

namespace tuplespace {

struct WaitingRequest {
  Request request;
  std::uint64_t cost = 0;
  std::uint64_t bytes = 0;             // of this process's memory
  std::optional<std::string> refusal;  // why it is refused; then only its id is kept
};

struct Peer {
  std::uint64_t session = 0;
  std::uint64_t nonce = 0;
  std::string name;
  bool decompresses = false;                       // it takes compressed control frames
  std::optional<AllowedPeer> key;                  // as at joining; nullopt: there are no keys
  std::uint64_t unread_bytes_of_key = UINT64_MAX;  // as in ClientLimits
  std::int64_t heard_at_us = 0;
  std::int64_t pong_due_us = 0;  // a part that comes from then on is answered with a Pong
  // Bytes of unfinished messages, and since when they are counted.
  std::uint64_t part_bytes = 0;
  std::int64_t parts_since_us = 0;
  std::vector<BrokerMessage> output;
  std::uint64_t turn = 0;  // the turn in which it was last served
  std::uint64_t cost = 0;  // of the requests served in that turn
  std::deque<WaitingRequest> waiting;
  std::uint64_t waiting_cost = 0;
  std::uint64_t waiting_bytes = 0;
  bool leaves = false;                              // it leaves when nothing waits any more
  bool deaf = false;                                // its connection has ended since it leaves
  std::unique_ptr<const Listening> listening = {};  // null: it does not serve payloads
};

class PeerTable {
 public:
  using Map = std::unordered_map<ClientId, Peer>;

  Map::iterator Find(const ClientId& client) { return peers_.find(client); }
  const Peer* Find(const ClientId& client) const {
    const auto it = peers_.find(client);
    return it == peers_.end() ? nullptr : &it->second;
  }
  bool Knows(const ClientId& client) const { return peers_.contains(client); }
  Map::iterator Add(const ClientId& client) { return peers_.try_emplace(client).first; }
  void Erase(Map::iterator peer) { peers_.erase(peer); }
  Map::iterator end() { return peers_.end(); }
  const Map& all() const { return peers_; }
  // "client ID (NAME)", for people.
  std::string Describe(const ClientId& client) const;

  // Queues a message for a peer. One that is deaf gets none, because another client may have its id
  // by now.
  template <class Message>
  void Send(const ClientId& client, Peer& peer, Message&& message) {
    if (peer.deaf) return;
    if (peer.output.empty()) dirty_.push_back(client);
    peer.output.emplace_back(std::forward<Message>(message));
  }
  void SendDone(const ClientId& client, Peer& peer, RequestId id);
  // For a client that has not joined, or not with this session.
  void SendStray(const ClientId& client, std::uint64_t session, BrokerMessage&& message);
  void SendGoodbyes();

  struct Delivery {
    ClientId client;
    ToClient envelope;
    bool decompresses = false;  // as in Peer
  };
  bool HasOutput() const { return !dirty_.empty() || !strays_.empty(); }
  std::vector<Delivery> TakeOutput();

 private:
  Map peers_;
  std::vector<ClientId> dirty_;  // peers with output, in the order of their first messages
  std::vector<Delivery> strays_;
};

}  // namespace tuplespace
