// The events that a space handles, and the messages that it produces.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tuplespace/client_limits.h"
#include "tuplespace/messages.h"

namespace tuplespace {

struct ClientJoined {
  ClientId client;
  // The client's owner: the name of its key. Empty: the client has no key and counts as its own
  // owner.
  std::string principal = {};
  ClientLimits limits = {};
};
// The client's leases end, its ephemeral tuples are removed, and its open requests and holds are
// forgotten.
struct ClientLost {
  ClientId client;
};
// From now on the client serves the payloads that stay with it to readers that have their places.
struct ClientListens {
  ClientId client;
};
// A message of this client is arriving, and is not whole yet.
struct ClientSends {
  ClientId client;
};
// A Complete of this client under this lease does not count, because a result does not have its
// hash, as `text` says. If the client holds a task under it, the task has failed.
struct ResultsDamaged {
  ClientId client;
  LeaseRef lease;
  std::string text;
};
// The client does not get the answer that grants these leases, as it cannot be sent. They end,
// which is nobody's fault.
struct GrantsUnsent {
  ClientId client;
  std::vector<LeaseRef> leases;
};
// The key of this name is not valid any more. If its clients judged apart (ClientLimits), the tasks
// that they put are removed: those that are leased when their leases end, all others now.
struct KeyEnded {
  std::string principal;
};
struct Incoming {
  ClientId client;
  Request request;
};
struct Tick {};
using Event = std::variant<ClientJoined, ClientLost, ClientListens, ClientSends, ResultsDamaged,
                           GrantsUnsent, KeyEnded, Incoming, Tick>;

struct Outgoing {
  ClientId client;
  std::variant<Reply, Notice> message;
};

}  // namespace tuplespace
