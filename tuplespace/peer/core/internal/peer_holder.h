// PeerHolder: the decisions of a client that holds payloads about clients that fetch them: which
// tickets are valid, whose turn it is, and how much is in flight. A pure state machine without
// sockets, clock or threads.
//
//     fetch --> ticket is good --> ASKED: the client's own thread is asked for the payload
//                                     |  Provide
//                                     v
//               SENDING, at most window_bytes ahead of what the reader has confirmed
//                                     |
//                                     v
//               DONE when everything is sent and confirmed
//
// Transfers proceed in the order in which they began. A transfer ends early if the reader stops it,
// its connection ends, the payload is withdrawn, or nothing is heard about it for stall_us.
// Whatever peers send, this holds no more than the limits allow.
//
// Not thread safe; for one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "peer_frames.h"

namespace tuplespace {

struct PeerHolderLimits {
  std::uint64_t window_bytes = 4 << 20;              // of a transfer, sent and not confirmed
  std::uint64_t in_flight_bytes_per_peer = 8 << 20;  // of a connection's transfers
  std::uint64_t in_flight_bytes = 64 << 20;          // of all transfers
  std::size_t transfers_per_peer = 64;
  std::size_t transfers = 1024;
  // Fetches and malformed messages; then the peer is disconnected.
  std::uint32_t refused_per_peer = 32;
  std::int64_t stall_us = 30'000'000;
};

struct PeerHolderCounts {
  std::uint64_t sent_payloads = 0, sent_bytes = 0;  // of payloads that were sent whole
  std::uint64_t forged = 0, expired = 0;            // tickets
  std::uint64_t gone = 0, busy = 0;                 // other refusals
  std::uint64_t malformed = 0, stalled = 0;
};

class PeerHolder {
 public:
  PeerHolder(std::string secret, PeerHolderLimits limits)
      : secret_(std::move(secret)), limits_(limits) {}

  // A session has begun; `broker_us` is the broker's clock at `now_us`. Later calls with the same
  // session only set the clock.
  void SessionBegan(std::uint64_t session, std::int64_t broker_us, std::int64_t now_us);
  // Tickets are not valid any more, and transfers that they allowed stop.
  void SessionEnded();

  // A message of the connection `peer`, whose other end has proven to have this public key (empty:
  // there are no keys). False: close the connection.
  bool Receive(const std::string& peer, std::string_view public_key,
               std::span<const std::byte> message, std::int64_t now_us);
  void PeerGone(const std::string& peer);

  // Requests to the client's own thread; it answers each with Provide.
  std::vector<Key> TakeAsked();
  // An empty payload: it is not here.
  void Provide(const Key& key, const Payload& payload, std::int64_t now_us);
  // No more of this payload is sent, so its bytes may be freed.
  void Withdraw(const Key& key);

  // The next message to send. `body` has the bytes of a piece, which `payload` keeps alive.
  struct Outgoing {
    std::string peer;
    std::vector<std::byte> head;
    std::span<const std::byte> body;
    Payload payload;
  };
  std::optional<Outgoing> TakeOutput();

  void Tick(std::int64_t now_us);
  std::int64_t NextDeadlineUs() const;
  std::vector<std::string> TakeStalledPeers();  // their connections must be closed
  const PeerHolderCounts& counts() const { return counts_; }
  bool idle() const { return transfers_.empty(); }

 private:
  struct Transfer {
    std::string peer;
    std::uint64_t number = 0;  // chosen by the reader
    Key key;
    std::uint64_t window_bytes = 0;
    std::optional<Payload> payload;  // set once provided
    PayloadHash hash;
    std::uint64_t sent_bytes = 0;
    std::uint64_t confirmed_bytes = 0;
    std::int64_t heard_us = 0;
    std::uint64_t in_flight() const { return sent_bytes - confirmed_bytes; }
  };
  struct Peer {
    std::size_t transfers = 0;
    std::uint64_t in_flight_bytes = 0;
    std::uint32_t refused = 0;
  };
  using Transfers = std::list<Transfer>;

  bool OnFetch(const std::string& peer, std::string_view public_key, FetchFrame&& fetch,
               std::int64_t now_us);
  void OnMore(const std::string& peer, const MoreFrame& more, std::int64_t now_us);
  std::optional<FetchRefusal> RefusalOf(const std::string& peer, std::string_view public_key,
                                        const FetchFrame& fetch, std::int64_t now_us);
  bool NoteRefused(const std::string& peer);
  void Refuse(const std::string& peer, std::uint64_t number, FetchRefusal why);
  Transfers::iterator Find(const std::string& peer, std::uint64_t number);
  bool MaySend(const Transfer& transfer) const;
  Outgoing NextPiece(Transfer& transfer);
  void Confirm(Transfer& transfer, std::uint64_t bytes);
  Transfers::iterator End(Transfers::iterator at);

  const std::string secret_;
  const PeerHolderLimits limits_;
  std::uint64_t session_ = 0;  // 0: none
  std::int64_t broker_ahead_us_ = 0;
  Transfers transfers_;  // in the order in which they were begun
  std::unordered_map<std::string, Peer> peers_;
  std::uint64_t in_flight_bytes_ = 0;
  std::vector<Key> asked_;
  std::deque<Outgoing> refusals_;
  std::vector<std::string> stalled_peers_;
  PeerHolderCounts counts_;
};

}  // namespace tuplespace
