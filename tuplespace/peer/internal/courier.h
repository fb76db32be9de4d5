// Courier: serves the payloads that stay with a client to other clients, and fetches theirs, in a
// thread with its own sockets. So large payloads do not delay other messages.
//
//   client's thread                         courier's thread                 other clients
//     SessionBegan, Fetch, Provide  ----->    PeerListener (ROUTER)   <-----   their couriers
//     TakeEvents                    <-----    a PeerLink (DEALER) for each holder   ----->
//
// Threads: all members are for the client's thread; `wake` is notified when there are events.
// Limits: see peer_holder.h and peer_reader.h; kPeerConnections below limits connections from other
// clients, and CourierOptions::most_links those to them. Whatever peers send, the process does not
// end, and these limits bound its memory and its descriptors.
// Errors: a failure ends a fetch without its payload, and the caller reads it through the broker. A
// holder (a client, an endpoint and a key) that could not be reached is not tried again for
// kUnreachableUs, doubled each time up to kMaxUnreachableUs, until it has sent a whole payload. A
// courier that finds no memory or no sockets for its own work dies: it reports Died, refuses
// connections and fails every fetch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "envelope.h"
#include "peer_holder.h"
#include "peer_reader.h"
#include "tuplespace/access.h"
#include "tuplespace/connection_limits.h"

namespace tuplespace {

class WakeUp;

inline constexpr std::int64_t kUnreachableUs = 5'000'000;
inline constexpr std::int64_t kMaxUnreachableUs = 300'000'000;
inline constexpr ConnectionLimits kPeerConnections{.connections = 512,
                                                   .connections_per_address = 128,
                                                   .handshake_us = 10'000'000,
                                                   .unfinished_bytes = 1 << 20,
                                                   .unread_bytes = 16 << 20,
                                                   .unread_bytes_of_all = 64 << 20};

// A link takes about four descriptors.
inline constexpr std::size_t kMaxLinks = 128;
inline constexpr std::int64_t kIdleLinkUs = 60'000'000;
// Readers connect when they have something to fetch.
inline constexpr std::int64_t kFirstFetchUs = 10'000'000;

struct CourierOptions {
  // tcp://ADDRESS:PORT, where PORT may be *. Without keys it must be a loopback address.
  std::string listen;
  // Replaces an address that stands for the whole host ("0.0.0.0", "[::]").
  std::string address;
  ClientId client;                   // as the broker knows it
  std::optional<KeyPair> keys = {};  // as the broker knows them; then everything is encrypted
  PeerHolderLimits holder_limits = {};
  PeerReaderLimits reader_limits = {};
  // Links to holders that are open at the same time. For a new one, the link that has been idle
  // longest is closed; if none is idle, the fetch fails.
  std::size_t most_links = kMaxLinks;
  std::int64_t idle_link_us = kIdleLinkUs;  // a link that is idle for so long is closed
  // A connection of another client is closed after so long without a fetch that has a good ticket.
  std::int64_t first_fetch_us = kFirstFetchUs;
};

struct CourierCounts {
  PeerHolderCounts holder;
  std::uint64_t fetched_payloads = 0, fetched_bytes = 0;
  std::uint64_t failed_fetches = 0;
  std::uint64_t links = 0;  // to holders, that are open now
};

class Courier {
 public:
  // Begins to listen. Throws std::invalid_argument for a malformed or forbidden address, and
  // std::runtime_error if it cannot be bound, the system refuses threads, or there are no random
  // bytes for a secret.
  Courier(CourierOptions options, WakeUp& wake);
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  const Listening& listening() const;  // for the broker
  // The broker knows this client by another id from the next session on.
  void ChangeClient(ClientId client);

  // The broker's clock is `broker_us` now. A repeated call in the same session only sets the clock.
  void SessionBegan(std::uint64_t session, std::int64_t broker_us);
  void SessionEnded();

  // An authorised reader asks for this payload: Provide it.
  struct Asked {
    Key key;
  };
  // Once, and before the ends of the fetches that were in progress.
  struct Died {
    std::string why;
  };
  using Event = std::variant<Asked, FetchedPayload, Died>;
  std::vector<Event> TakeEvents();

  void Provide(const Key& key, Payload payload);  // empty: it is not here
  // The payload is here until it is withdrawn, so it need not be asked for.
  void Offer(const Key& key, Payload payload);
  // Nothing here keeps the payload's bytes any more; if a reader is fetching it, soon.
  void Withdraw(const Key& key);

  // `holder`: the client that the broker says has put it there (FoundTuple::put_by). A client that
  // names the place of another one shares neither its link nor its pauses. `hash`: of the payload,
  // if the broker has said it. REQUIRES: bytes > 0.
  // FetchedPayload reports the end, unless Forget comes first.
  void Fetch(std::uint64_t id, const Key& key, std::uint64_t bytes, const Place& place,
             const ClientId& holder = {}, const std::optional<PayloadHash>& hash = {});
  void Forget(std::uint64_t id);

  CourierCounts counts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tuplespace
