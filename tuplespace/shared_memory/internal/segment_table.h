// SegmentTable: a broker's view of shared memory: which clients share it, which of their segments
// hold tuples, and which clients may be reading these. It keeps every segment with a tuple open, so
// that the tuple outlives the process that put it.
//
// A segment returns to its producer for reuse when no payload in it is left here and every reader
// has returned it. A reader whose session ended before that may still be reading: its segments
// become spoilt, which costs their pages and nothing else.
//
// For one thread; payloads may be released on any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "envelope.h"
#include "memfd.h"
#include "released_queue.h"
#include "wire.h"

namespace tuplespace {

class SegmentTable {
 public:
  // Keeps at most `limit` segments open. Shares nothing if it is 0.
  explicit SegmentTable(std::uint64_t limit);
  ~SegmentTable();

  // `client` has joined with this offer in a Hello with this nonce. Returns what its Welcome must
  // say. If the offer is proven, `sees` has a proof; only then are files of the named process
  // opened. A repeated call for the same session only repeats that.
  std::optional<Sharing> Joined(const ClientId& client, std::uint64_t session, std::uint64_t nonce,
                                const std::optional<Sharing>& offer);
  void Receive(const ClientId& client, std::uint64_t session, const ClientSegments& message);
  void SessionEnded(const ClientId& client, std::uint64_t session);

  // Whether files of this client are opened when it names them.
  bool Opens(const ClientId& client) const;
  // For decoding messages of this client, or encoding messages to it; valid until the next call.
  SegmentOpener* From(const ClientId& client);
  SegmentNamer* To(const ClientId& client);

  // What must be sent, and its receiver.
  struct Delivery {
    ClientId client;
    std::uint64_t session = 0;
    BrokerSegments message;
  };
  std::vector<Delivery> TakeOutput();

  std::uint64_t segments() const { return segments_.size(); }

 private:
  struct Segment;
  struct Use;
  struct Loan {
    Payload payload;  // keeps the segment in use
    std::uint64_t count = 0;
  };
  struct Peer {
    std::uint64_t session = 0;
    std::optional<PeerFiles> files;  // of the process that the client has proven to be
    bool reads = false;              // the client has proven that it can open the broker's files
    std::unordered_map<std::uint64_t, std::shared_ptr<Segment>> produced;  // by the client's ids
    std::unordered_map<std::uint64_t, Loan> loans;                         // by the broker's ids
    BrokerSegments output;
  };
  class Opener;
  class Namer;

  std::optional<Payload> Open(const ClientId& client, std::uint64_t session, const SegmentRef& ref);
  std::optional<SegmentRef> Name(const ClientId& client, const Payload& payload);
  std::shared_ptr<Segment> OpenNew(Peer& peer, const SegmentRef& ref);
  void Settle(std::uint64_t id);
  void Close(const std::shared_ptr<Segment>& segment);
  BrokerSegments& OutputOf(const ClientId& client, Peer& peer);

  const std::uint64_t limit_;
  std::optional<SharingProbe> probe_;
  std::unordered_map<ClientId, Peer> peers_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Segment>> segments_;
  std::uint64_t next_id_ = 1;
  std::shared_ptr<ReleasedQueue> released_ = std::make_shared<ReleasedQueue>();
  std::vector<ClientId> dirty_;  // peers with output
  std::unique_ptr<Opener> opener_;
  std::unique_ptr<Namer> namer_;
};

}  // namespace tuplespace
