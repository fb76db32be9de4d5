// What happens to a space, and what it has to say.
#pragma once

#include <string>
#include <variant>

#include "tuplespace/client_limits.h"
#include "tuplespace/messages.h"

namespace tuplespace {

struct ClientJoined {
  ClientId client;
  // Whom it belongs to: the name of its key. Empty: to nobody else, as if it were its id.
  std::string principal = {};
  ClientLimits limits = {};
};
struct ClientLost {
  ClientId client;
};  // its leases return, its ephemeral tuples go, its
    // open requests and holds are forgotten
// From here on it serves the payloads that stay with it to who has their places.
struct ClientListens {
  ClientId client;
};
struct Incoming {
  ClientId client;
  Request request;
};
struct Tick {};
using Event = std::variant<ClientJoined, ClientLost, ClientListens, Incoming, Tick>;

struct Outgoing {
  ClientId client;
  std::variant<Reply, Notice> message;
};

}  // namespace tuplespace
