// BrokerCore: the broker's half of the protocol as a pure state machine: who has joined, under
// which session, when it was last heard, and the Space that they share. No socket, clock or thread:
// the broker is a loop around it, and a simulation can be another. Times are microseconds of one
// monotonic clock.
//
// Not thread safe: one thread owns it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "access_list.h"
#include "broker_statistics.h"
#include "envelope.h"
#include "peer_table.h"
#include "tuplespace/space.h"
#include "turns.h"

namespace tuplespace {

struct BrokerCoreOptions {
  SpaceLimits limits;
  std::int64_t client_silence_us = 10'000'000;
  std::uint64_t control_frame_bytes = 64ull << 20;
  // Different for every broker that a client may meet: sessions and leases of another one are not
  // known here.
  std::uint64_t first_session = 1;
  std::uint64_t clients_per_key = 1024;
  // Of one client in one turn (between two Ticks): tuples, patterns and keys that its requests
  // name, one for each request, and what they move in the space. What is more waits for the next
  // turns, in which the others come first.
  std::uint64_t turn_cost = 512;
  // A request that the client's role forbids costs so many times as much. A program that keeps to
  // its role sends next to none, so only a client that floods the broker with them gets less done.
  std::uint64_t refused_cost = 16;
  // The broker loses a client whose waiting requests cost more than that together: it sends faster
  // than anybody can be served. The limit is more than the tuples that a space takes, so a client
  // that fills a space tuple by tuple is not lost; it would send all of them again.
  std::uint64_t waiting_cost = 1 << 23;
  // Of what waits so, bytes in this process's memory: of one client, and of all. A client whose
  // tuples would be more is told to send them again later.
  std::uint64_t waiting_bytes = 2ull << 30;
  std::uint64_t waiting_bytes_of_all = 4ull << 30;
  // A ticket for a direct transfer counts so long: a reader begins to fetch at once, or when a task
  // that it has taken comes near.
  std::int64_t ticket_us = 60'000'000;
};

class BrokerCore {
 public:
  explicit BrokerCore(BrokerCoreOptions options);

  // `who` is what the client's key stands for; null: there are no keys, everybody may do
  // everything.
  void Receive(const ClientId& client, ToBroker&& envelope, std::int64_t now_us,
               const AccessList::Entry* who = nullptr);
  // Part of a message has come. False: the client has not joined.
  bool Heard(const ClientId& client, std::int64_t now_us);
  // A message that could not be decoded has come; `error` goes back.
  void ReceiveBad(const ClientId& client, const RequestError& error, std::int64_t now_us);
  // The session cannot go on, and the client is told so. REQUIRES: it has joined.
  void GiveUp(const ClientId& client, const std::string& why, std::int64_t now_us);
  // The connection of this client is gone. Does nothing if it has not joined, or if it has said
  // Bye: then its session ends when its waiting requests have been served.
  void Lost(const ClientId& client, const std::string& why, std::int64_t now_us);
  // Clients whose key is not on this list, has ended, or stands for something else there than when
  // they joined, are told so and lost.
  void SendAwayOthers(const AccessList& list, std::int64_t now_us);
  // What the shell counted, for the statistics.
  void SetConnectionCounts(std::uint64_t refused_connections, std::uint64_t failed_connections) {
    statistics_.SetConnectionCounts(refused_connections, failed_connections);
  }
  // The wall clock, for who asks for statistics; nothing depends on it.
  void SetUnixTime(std::uint64_t unix_us) { statistics_.SetUnixTime(unix_us); }
  void Tick(std::int64_t now_us);
  std::int64_t NextDeadlineUs() const;
  void SayGoodbye() { peers_.SendGoodbyes(); }  // to every client; the last output

  using Delivery = PeerTable::Delivery;
  bool HasOutput() const { return peers_.HasOutput(); }
  // All that is to be sent, one envelope for each client (and one for each stray answer to somebody
  // who has not joined). Those come first whom something new wakes: of two processors one is still
  // the broker's, and mere acknowledgements would keep the other from them.
  std::vector<Delivery> TakeOutput() { return peers_.TakeOutput(); }
  // Sessions that have ended, in order.
  struct EndedSession {
    ClientId client;
    std::uint64_t session = 0;
  };
  std::vector<EndedSession> TakeEnded();
  // Rare events, one line each.
  std::vector<std::string> TakeLog() { return statistics_.TakeLog(); }

  bool Knows(const ClientId& client) const { return peers_.Knows(client); }
  const Peer* PeerOf(const ClientId& client) const { return peers_.Find(client); }  // may be null
  std::vector<ClientId> Clients() const;
  Stats GetStatistics() const;
  // As Space's; for tests.
  std::optional<std::string> FindContradiction() const { return space_.FindContradiction(); }

 private:
  using Peers = PeerTable::Map;

  void OnHello(const ClientId& client, Hello&& hello, const AccessList::Entry* who,
               std::int64_t now_us);
  std::optional<RequestError> CheckRoomFor(const AccessList::Entry* who) const;
  bool TooManyOf(const AllowedPeer& key) const;
  Peers::iterator Join(const ClientId& client, Hello& hello, const AccessList::Entry* who,
                       std::int64_t now_us);
  // False: the client sends faster than anybody can be served.
  bool OnRequest(const ClientId& client, Peers::iterator peer, Request&& request,
                 const AccessList::Entry* who, std::int64_t now_us);
  bool Defer(const ClientId& client, Peer& peer, Request&& request, std::uint64_t cost,
             std::optional<std::string>&& refusal);
  void OnListening(const ClientId& client, Peer& peer, Listening&& listening, std::int64_t now_us);
  // The places that the space left empty in an answer to `reader`.
  void FillPlaces(const ClientId& reader, const Peer& peer, ReplyBody& body, std::int64_t now_us);
  void FillPlace(const ClientId& reader, const Peer& peer, FoundTuple& found, std::int64_t now_us);
  void OnMalformed(const ClientId& client, Malformed&& bad, std::int64_t now_us);
  void ServeWaiting(std::int64_t now_us);
  // How much of the client's turn it took beyond `cost`.
  std::uint64_t Serve(const ClientId& client, Peers::iterator peer, Request&& request,
                      std::uint64_t cost, std::int64_t now_us);
  void Refuse(const ClientId& client, Peer& peer, RequestId id, std::string refusal,
              std::int64_t now_us);
  void LogAndLose(const ClientId& client, const std::string& why, std::int64_t now_us);
  void Lose(Peers::iterator peer, std::int64_t now_us);  // with what waits of it
  void Leave(Peers::iterator peer, std::int64_t now_us);
  // `sender`: whom most answers are for, if anybody; else the end of peers_.
  void Step(Event&& event, std::int64_t now_us, Peers::iterator sender);
  void Step(Event&& event, std::int64_t now_us) { Step(std::move(event), now_us, peers_.end()); }
  void CountBad(const ClientId& client, const std::string& text, std::int64_t now_us);

  BrokerCoreOptions options_;
  Space space_;
  PeerTable peers_;
  Turns turns_;
  BrokerStatistics statistics_;
  std::vector<EndedSession> ended_;
  std::uint64_t next_session_;
  std::int64_t next_silence_check_us_ = 0;
};

}  // namespace tuplespace
