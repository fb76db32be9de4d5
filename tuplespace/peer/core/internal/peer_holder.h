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
// Peers take turns: the next piece goes to the peer that was sent one longest ago, among those that
// may be sent one; a new peer counts as served just now. So no peer waits longer than it takes to
// send each of the others one piece. The transfers of a peer proceed in the order in which they
// began. A transfer ends early if the reader stops it, its connection ends, the payload is
// withdrawn, or the peer confirms nothing for stall_us while something is in flight to it.
//
// A peer's word frees no memory: pieces that it confirms without reading them, or that it stops,
// still wait in the queue of its connection. So bytes also count while the sender keeps them
// (Outgoing::queued), and a peer with nothing in flight is dropped, too, if its queue does not
// become shorter for stall_us.
//
// Whatever peers send, this holds no more than the limits allow. A waiting transfer costs its key
// and a reference to the payload, which all transfers of the payload share. The time for a piece or
// a message depends on the transfers of its peer and its payload, not on those of all.
//
// Not thread safe; for one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "peer_frames.h"
#include "session_tickets.h"

namespace tuplespace {

struct PeerHolderLimits {
  std::uint64_t window_bytes = 4 << 20;  // of a transfer, sent and not confirmed
  // Sent and not confirmed; also sent and still queued. First of a connection, then of all.
  std::uint64_t in_flight_bytes_per_peer = 8 << 20;
  std::uint64_t in_flight_bytes = 64 << 20;
  std::size_t transfers_per_peer = 64;
  std::size_t transfers = 4096;  // 8 of each of the connections that a courier accepts
  // Refused fetches, malformed messages, and transfers that the reader stops before it has
  // confirmed anything, less the payloads that it has fetched whole; then the peer is disconnected.
  std::uint32_t refused_per_peer = 32;
  std::int64_t stall_us = 30'000'000;
};

struct PeerHolderCounts {
  std::uint64_t sent_payloads = 0, sent_bytes = 0;  // of payloads that were sent whole
  std::uint64_t forged = 0, expired = 0;            // tickets
  std::uint64_t gone = 0, busy = 0;                 // other refusals
  std::uint64_t malformed = 0;
  std::uint64_t stalled = 0;  // peers
};

class PeerHolder {
 public:
  PeerHolder(std::string secret, PeerHolderLimits limits)
      : tickets_(std::move(secret)), limits_(limits) {}

  // A session has begun; `broker_us` is the broker's clock at `now_us`. Later calls with the same
  // session only set the clock.
  void SessionBegan(std::uint64_t session, std::int64_t broker_us, std::int64_t now_us);
  // Tickets are not valid any more, and transfers that they allowed stop.
  void SessionEnded();

  // A message of the connection `peer`, whose other end has proven to have this public key (empty:
  // there are no keys). False: close the connection.
  bool Receive(const std::string& peer, std::string_view public_key,
               std::span<const std::byte> message, std::int64_t now_us);
  bool HadTicket(const std::string& peer) const;  // a fetch of this connection had a good one
  void PeerGone(const std::string& peer);

  // Requests to the client's own thread, which answers each with Provide. Until then there is no
  // second one for the same key, as each may cost a copy from a device.
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
    // To be kept until the bytes have left this process. Any thread may free it.
    std::shared_ptr<const void> queued = {};
  };
  std::optional<Outgoing> TakeOutput();

  void Tick(std::int64_t now_us);
  // No Tick before this time does anything. One at this time may do nothing, too.
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
    std::uint64_t in_flight() const { return sent_bytes - confirmed_bytes; }
  };
  using Bytes = std::shared_ptr<std::atomic<std::uint64_t>>;  // shared with what the sender keeps
  using Transfers = std::list<Transfer>;
  using SomeTransfers = std::vector<Transfers::iterator>;  // in the order in which they began
  struct Peer {
    SomeTransfers transfers;
    std::uint64_t in_flight_bytes = 0;
    Bytes queued_bytes = std::make_shared<std::atomic<std::uint64_t>>(0);
    std::uint64_t seen_queued_bytes = 0;  // when stalled peers were last looked for
    std::int64_t heard_us = 0;  // when it confirmed bytes, or was first sent some to confirm
    std::uint64_t turn = 0;     // the last one that it had; 0: it has not begun a transfer
    std::uint32_t refused = 0;
    bool had_ticket = false;
  };
  struct Turns {
    std::map<std::uint64_t, Peer*> ready;  // the peers that may be sent a piece, by Peer::turn
    std::map<std::uint64_t, Peer*> full;   // those that may be, once their queues are shorter
    std::uint64_t last = 0;
  };
  struct Asks {
    std::vector<Key> due;  // to be taken by TakeAsked
    std::set<Key> open;    // due, or taken and not provided yet
  };

  bool OnFetch(const std::string& peer, std::string_view public_key, FetchFrame&& fetch);
  void Begin(const std::string& peer, FetchFrame&& fetch);
  void OnMore(const std::string& peer, const MoreFrame& more);
  bool OnStop(const std::string& peer, const StopFrame& stop);
  std::optional<FetchRefusal> RefusalOf(const std::string& peer, std::string_view public_key,
                                        const FetchFrame& fetch);
  bool NoteRefused(const std::string& peer);
  void Refuse(const std::string& peer, std::uint64_t number, FetchRefusal why);
  Transfers::iterator Find(const std::string& peer, std::uint64_t number);
  SomeTransfers OfKey(const Key& key) const;
  SomeTransfers OfPeer(const std::string& peer) const;
  // The transfer of this peer that may be sent a piece next, if `in_flight_bytes` and its queue let
  // it.
  SomeTransfers::const_iterator FirstToSend(const Peer& peer) const;
  // To be called when what may be sent to the peer may have changed.
  void NoteReady(Peer& peer);
  static bool HasRoom(const Bytes& queued, std::uint64_t limit);
  bool IsStalled(Peer& peer);
  Outgoing NextPiece(Transfer& transfer, Peer& peer);
  void Confirm(Transfer& transfer, Peer& peer, std::uint64_t bytes);
  void End(Transfers::iterator at);
  void EndRefused(Transfers::iterator at);

  SessionTickets tickets_;
  const PeerHolderLimits limits_;
  std::int64_t now_us_ = 0;              // the last that was given
  Transfers transfers_;                  // in the order in which they began
  std::map<Key, SomeTransfers> of_key_;  // ordered, as others choose the keys
  std::unordered_map<std::string, Peer> peers_;
  Turns turns_;
  std::uint64_t in_flight_bytes_ = 0;
  const Bytes queued_bytes_ = std::make_shared<std::atomic<std::uint64_t>>(0);  // of all
  std::int64_t next_deadline_us_ = kForeverUs;
  Asks asks_;
  std::deque<Outgoing> refusals_;
  std::vector<std::string> stalled_peers_;
  PeerHolderCounts counts_;
};

}  // namespace tuplespace
