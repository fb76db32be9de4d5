// What travels between a client and a broker beside requests and replies: joining, heartbeats,
// leaving. Plain values; wire.h turns them into frames, Session and BrokerCore act on them.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tuplespace/messages.h"

namespace tuplespace {

// A client joins, or joins again after it lost its connection. Requests may follow the Welcome.
// The nonce ties a Welcome to its Hello; a Hello with a new nonce begins a new session.
struct Hello {
  std::uint64_t nonce = 0;
  std::string name;  // for people; at most kMaxNameBytes
};
struct Ping {};
struct Bye {};  // the client leaves: its leases return at once

struct Welcome {
  std::uint64_t nonce = 0;
  std::uint64_t session = 0;              // to be named in every envelope from here on
  std::int64_t silence_us = 0;            // a client not heard for this long is lost
  std::uint64_t control_frame_bytes = 0;  // the largest control frame that the broker takes
  std::uint64_t message_bytes = 0;        // the largest payload that the broker takes
};
struct Pong {};
struct Goodbye {};  // the broker ends

// One request that could not be understood, in an envelope that could.
struct Malformed {
  RequestId id = 0;
  std::string text;
  ErrorCode code = ErrorCode::kBadRequest;
};

using ClientMessage = std::variant<Request, Hello, Ping, Bye, Malformed>;
struct ToBroker {
  std::uint64_t session = 0;
  std::vector<ClientMessage> messages;
};

// An Error outside a Reply concerns the session, not one request.
using BrokerMessage = std::variant<Reply, Notice, Welcome, Pong, Goodbye, Error>;
struct ToClient {
  std::uint64_t session = 0;
  std::vector<BrokerMessage> messages;
};

}  // namespace tuplespace
