// What clients and brokers send each other besides requests and replies: joining, heartbeats,
// leaving. Plain values; wire.h turns them into frames, ClientSession and BrokerCore act on them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tuplespace/messages.h"

namespace tuplespace {

// An offer to share memory: the location of the sender's SharingProbe, the proof that it is the
// sender's, the proof that the sender sees the receiver's probe (if it could open that;
// sharing_proof.h), and the sender's end of a Channel, if it has one.
struct Sharing {
  std::int32_t pid = 0;
  std::int32_t fd = -1;
  std::string proof;
  std::string sees;
  std::int32_t ring_fd = -1;
  std::int32_t wake_fd = -1;
};

// Where a client serves the payloads that stay with it, and the secret from which the broker makes
// tickets for them.
struct Listening {
  std::string endpoint;
  std::string public_key;  // empty: the client has no keys
  std::string secret;
};

// A client joins, or joins again after it lost its connection. Requests may follow the Welcome.
// The nonce ties a Welcome to its Hello; a Hello with a new nonce begins a new session.
struct Hello {
  std::uint64_t nonce = 0;
  std::string name;  // for people; at most kMaxNameBytes
  std::optional<Sharing> sharing = {};
  bool decompresses = false;  // it takes compressed control frames (compression.h)
};
struct Ping {};
struct Bye {};  // the client leaves: its leases end at once

struct Welcome {
  std::uint64_t nonce = 0;
  std::uint64_t session = 0;              // every envelope must name it from here on
  std::int64_t silence_us = 0;            // a client that is silent for this long is lost
  std::uint64_t control_frame_bytes = 0;  // the largest control frame that the broker takes
  std::uint64_t message_bytes = 0;        // the largest payload that the broker takes
  std::optional<Sharing> sharing = {};
  std::int64_t broker_us = 0;  // the broker's clock; 0: it takes no Listening
  bool decompresses = false;   // as in Hello
  std::uint64_t life = 0;      // of the broker, different in each life; 0: not given
};
struct Pong {
  std::int64_t broker_us = 0;
};
// These requests succeeded completely. Replaces replies that would say nothing else.
struct Done {
  std::vector<RequestId> requests;
};
// The reply that Done stands for; nullopt: such a request has none.
std::optional<ReplyBody> DoneReply(const RequestBody& request);
bool IsDone(const ReplyBody& reply);
struct Goodbye {};  // the broker ends

// What became of segments of shared memory. For the shells only; the cores never see these
// messages.
struct ClientSegments {
  std::string sees;  // the proof that the client sees the broker's probe; empty: not said
  std::vector<std::uint64_t> returned;  // the broker's, not read any more; once for each time sent
  std::vector<std::uint64_t> dropped;   // the client's segments that it will not use again
};
struct BrokerSegments {
  // A segment of the client that the broker does not use any more, and that was named `count`
  // times; `spoilt` ones may still be read.
  struct Freed {
    std::uint64_t id = 0;
    std::uint64_t count = 0;
    bool spoilt = false;
  };
  std::vector<Freed> freed;
  std::vector<std::uint64_t> refused;  // the client's segments that the broker cannot open
  std::vector<std::uint64_t> gone;     // the broker's segments that it will not name again
  bool empty() const { return freed.empty() && refused.empty() && gone.empty(); }
};

// One request that could not be decoded, in an envelope that could be.
struct Malformed {
  RequestId id = 0;
  std::string text;
  ErrorCode code = ErrorCode::kBadRequest;
  // The lease of a Complete of which a result does not have its hash.
  std::optional<LeaseRef> damaged_results_of = {};
};

using ClientMessage = std::variant<Request, Hello, Ping, Bye, Malformed, ClientSegments, Listening>;
struct ToBroker {
  std::uint64_t session = 0;
  std::vector<ClientMessage> messages;
};

// A RequestError outside a Reply concerns the session, not one request.
using BrokerMessage =
    std::variant<Reply, Notice, Welcome, Pong, Goodbye, RequestError, BrokerSegments, Done>;
struct ToClient {
  std::uint64_t session = 0;
  std::vector<BrokerMessage> messages;
};

}  // namespace tuplespace
