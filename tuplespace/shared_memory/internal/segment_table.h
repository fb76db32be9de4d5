// SegmentTable: what a broker knows of shared memory: which clients share it, which of their
// segments hold tuples, and who may be reading them. It keeps every segment open that a tuple lies
// in, so the tuple outlives the process that put it.
//
// A segment goes back to its producer, to be written again, when no payload of it is left here and
// every reader has returned it. A reader whose session ended without that may still be reading: its
// segments are spoilt, which costs their pages and nothing else.
//
// One thread owns it; payloads may be released on any.
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
  // At most so many segments are kept open. Shares nothing if it is 0.
  explicit SegmentTable(std::uint64_t limit);
  ~SegmentTable();

  // `client` has joined with this offer in a Hello with this nonce; what is to be said in its
  // Welcome, with a proof in `sees` if the offer is proven: then, and only then, files of the
  // process that it names are opened. Calling it again for the same session only repeats that.
  std::optional<Sharing> Joined(const ClientId& client, std::uint64_t session, std::uint64_t nonce,
                                const std::optional<Sharing>& offer);
  void Receive(const ClientId& client, std::uint64_t session, const ClientSegments& message);
  void SessionEnded(const ClientId& client, std::uint64_t session);

  // Files of this client are opened when it names them.
  bool Opens(const ClientId& client) const;
  // For messages of, and to, this client: good until the next call.
  SegmentOpener* From(const ClientId& client);
  SegmentNamer* To(const ClientId& client);

  // What is to be sent, and to whom.
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
    std::optional<PeerFiles> files;  // of the process that it has proven to be
    bool reads = false;              // it has proven that it can open the broker's
    std::unordered_map<std::uint64_t, std::shared_ptr<Segment>> produced;  // by the client's ids
    std::unordered_map<std::uint64_t, Loan> loans;                         // by the broker's
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
