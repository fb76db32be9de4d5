// BrokerCore: the broker's half of the protocol as a pure state machine: which clients have joined,
// their sessions, when each was last heard, and the Space that they share. No socket, clock or
// thread: the broker or a simulation is a loop around it. Times are microseconds of one monotonic
// clock.
//
// Not thread safe; for one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
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
  // The space begins with these plain tuples, which are empty and belong to no client.
  std::vector<Key> first_tuples = {};
  std::int64_t client_silence_us = 10'000'000;
  std::uint64_t control_frame_bytes = 64ull << 20;
  // Must differ between all brokers that a client may meet, because sessions and leases of another
  // broker are not valid here.
  std::uint64_t first_session = 1;
  std::uint64_t key_secret = 0;  // of the Space
  std::uint64_t clients_per_key = 1024;
  // The maximum cost of one client's requests in one turn (between two Ticks): the tuples, patterns
  // and keys that they name, one for each request, and what they move in the space. Further
  // requests wait for the next turns, in which other clients come first.
  std::uint64_t turn_cost = 512;
  // The cost of a request that the client's role forbids is multiplied by this. A correct program
  // sends almost none, so only a client that floods the broker with them is slowed down.
  std::uint64_t refused_cost = 16;
  // The broker drops a client whose waiting requests together cost more than this: it sends faster
  // than any client can be served. The limit exceeds the number of tuples that a space takes, so
  // that a client that fills a space tuple by tuple is not lost; it would send all of them again.
  std::uint64_t waiting_cost = 1 << 23;
  // The limits of waiting requests in bytes of this process's memory, for one client and for all. A
  // client whose tuples would exceed them is told to send them again later.
  std::uint64_t waiting_bytes = 2ull << 30;
  std::uint64_t waiting_bytes_of_all = 4ull << 30;
  // How long a ticket for a direct transfer is valid. A reader begins to fetch at once, or when a
  // task that it has taken is about to run.
  std::int64_t ticket_us = 60'000'000;
};

class BrokerCore {
 public:
  explicit BrokerCore(BrokerCoreOptions options);

  // `who` describes the client's key; null: there are no keys, and everyone may do everything.
  void Receive(const ClientId& client, ToBroker&& envelope, std::int64_t now_us,
               const AccessList::Entry* who = nullptr);
  // A part of an unfinished message, of `bytes` bytes, has come. False: the client has not joined.
  bool Heard(const ClientId& client, std::uint64_t bytes, std::int64_t now_us);
  // A message that could not be decoded has come. `error` is sent back. `ends`: GiveUp follows.
  void ReceiveBad(const ClientId& client, const RequestError& error, std::int64_t now_us,
                  bool ends = false);
  // Ends a session that cannot continue, and tells the client. REQUIRES: the client has joined.
  void GiveUp(const ClientId& client, const std::string& why, std::int64_t now_us);
  // The connection of this client is gone. Does nothing if it has not joined, or if it has said
  // Bye: then its session ends when its waiting requests have been served.
  void Lost(const ClientId& client, const std::string& why, std::int64_t now_us);
  // Loses clients, and tells them so, whose key is not on this list, has ended, or means something
  // else there than when they joined. Removes the tasks that such keys leave if they judged apart.
  void SendAwayOthers(const AccessList& list, std::int64_t now_us);
  // The counts of the caller, for the statistics.
  void SetConnectionCounts(std::uint64_t refused_connections, std::uint64_t failed_connections) {
    statistics_.SetConnectionCounts(refused_connections, failed_connections);
  }
  // The wall clock, only for replies with statistics.
  void SetUnixTime(std::uint64_t unix_us) { statistics_.SetUnixTime(unix_us); }
  void Tick(std::int64_t now_us);
  std::int64_t NextDeadlineUs() const;
  void SayGoodbye() { peers_.SendGoodbyes(); }  // to every client; the last output

  using Delivery = PeerTable::Delivery;
  bool HasOutput() const { return peers_.HasOutput(); }
  // Everything that must be sent: one envelope for each client, and one for each stray answer to a
  // sender that has not joined. Envelopes with news come first: with two processors one belongs to
  // the broker, and sending mere acknowledgements first would keep the other one from work.
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
  // Describes a client that has leased a tuple that matches; nullopt: no such tuple is leased.
  std::optional<std::string> HolderOf(const Pattern& pattern) const;
  Stats GetStatistics() const;
  // The bytes of payloads that the space still takes.
  std::uint64_t PayloadRoom() const {
    const std::uint64_t most = options_.limits.payload_bytes;
    return most - std::min(most, space_.GetStatistics().payload_bytes);
  }
  // As in Space; for tests.
  std::optional<std::string> FindContradiction() const { return space_.FindContradiction(); }

 private:
  using Peers = PeerTable::Map;

  void PutFirstTuples();
  void OnHello(const ClientId& client, Hello&& hello, const AccessList::Entry* who,
               std::int64_t now_us);
  std::optional<RequestError> CheckRoomFor(const AccessList::Entry* who) const;
  bool TooManyOf(const AllowedPeer& key) const;
  void EndJudges(const AccessList& list, std::int64_t now_us);
  Peers::iterator Join(const ClientId& client, Hello& hello, const AccessList::Entry* who,
                       std::int64_t now_us);
  // False: the client sends faster than any client can be served.
  bool OnRequest(const ClientId& client, Peers::iterator peer, Request&& request,
                 const AccessList::Entry* who, std::int64_t now_us);
  bool Defer(const ClientId& client, Peer& peer, Request&& request, std::uint64_t cost,
             std::optional<std::string>&& refusal);
  void OnListening(const ClientId& client, Peer& peer, Listening&& listening, std::int64_t now_us);
  // Fills the places that the space left empty in an answer to `reader`.
  void FillPlaces(const ClientId& reader, const Peer& peer, ReplyBody& body, std::int64_t now_us);
  void FillPlace(const ClientId& reader, const Peer& peer, FoundTuple& found, std::int64_t now_us);
  void OnMalformed(const ClientId& client, Malformed&& bad, std::int64_t now_us,
                   const AccessList::Entry* who = nullptr);
  void ServeWaiting(std::int64_t now_us);
  // Returns the cost of the request beyond `cost`, for the client's turn.
  std::uint64_t Serve(const ClientId& client, Peers::iterator peer, Request&& request,
                      std::uint64_t cost, std::int64_t now_us);
  void Refuse(const ClientId& client, Peer& peer, RequestId id, std::string refusal,
              std::int64_t now_us);
  void LogAndLose(const ClientId& client, const std::string& why, std::int64_t now_us);
  void LogPresence(const ClientId& client, const std::string& what, std::int64_t now_us);
  std::string PartyOf(const ClientId& client) const;
  void Lose(Peers::iterator peer, std::int64_t now_us);  // with its waiting requests
  void Leave(Peers::iterator peer, std::int64_t now_us);
  // `sender`: the peer that gets most of the answers, or the end of peers_. Returns how many
  // placements changed (Space::places_changed), also because grants could not be sent.
  std::uint64_t Step(Event&& event, std::int64_t now_us, Peers::iterator sender);
  void Step(Event&& event, std::int64_t now_us) { Step(std::move(event), now_us, peers_.end()); }
  // Adds grants that are too large for an answer to `unsent`.
  void Send(std::span<Outgoing> messages, std::int64_t now_us, Peers::iterator sender,
            std::vector<GrantsUnsent>& unsent);
  void CountBad(const ClientId& client, const std::string& text, std::int64_t now_us);

  BrokerCoreOptions options_;
  Space space_;
  PeerTable peers_;
  Turns turns_;
  BrokerStatistics statistics_;
  std::vector<EndedSession> ended_;
  // Keys with which clients have joined that judge apart, by name, as at joining.
  std::map<std::string, AllowedPeer> judges_;
  std::uint64_t next_session_;
  std::int64_t next_silence_check_us_ = 0;
};

}  // namespace tuplespace
