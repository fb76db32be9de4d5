// Excluded: the handlers of a job whose results were wrong. No task goes to them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tuplespace/messages.h"

namespace acan {

// Who is accountable for what a client does: its key ("name/") if it came with one, else itself.
// Whoever has a key can have any number of client ids.
tuplespace::ClientId OwnerOf(const tuplespace::ClientId& client);

// Whether `clients` has this client, or all clients of its key.
bool HasClient(const std::set<tuplespace::ClientId>& clients, const tuplespace::ClientId& client);

// Without those whose key is there, too: what TaskSpec::not_by has to name.
std::set<tuplespace::ClientId> WithoutCovered(const std::set<tuplespace::ClientId>& clients);

// The keys of which so many clients are in `wrong` that all their clients should be. Never the key
// of all handlers that are `present`: then nobody would be left.
std::vector<tuplespace::ClientId> KeysToExclude(const std::set<tuplespace::ClientId>& wrong,
                                                const std::set<tuplespace::ClientId>& present);

}  // namespace acan
