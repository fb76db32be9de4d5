// Excluded: the handlers that get no more tasks of a job because their results were wrong.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "tuplespace/messages.h"

namespace acan {

// The party accountable for a client: its key ("name/") if it has one, otherwise the client itself.
// A key may have any number of clients.
tuplespace::ClientId OwnerOf(const tuplespace::ClientId& client);

// Whether `clients` contains this client, or the key that covers it.
bool HasClient(const std::set<tuplespace::ClientId>& clients, const tuplespace::ClientId& client);

// The clients without those whose key is in the set, too: what TaskSpec::not_by has to name.
std::set<tuplespace::ClientId> WithoutCovered(const std::set<tuplespace::ClientId>& clients);

// The keys with so many clients in `wrong` that all their clients should be excluded. Never the key
// of all handlers that are `present`, because then no handler would be left.
std::vector<tuplespace::ClientId> KeysToExclude(const std::set<tuplespace::ClientId>& wrong,
                                                const std::set<tuplespace::ClientId>& present);

// The keys that must be excluded, whoever is present, because a task cannot name more than `most`
// clients: those with the most clients in `wrong`. None if these clients have no keys.
std::vector<tuplespace::ClientId> KeysOverLimit(const std::set<tuplespace::ClientId>& wrong,
                                                std::size_t most);

// The keys of the clients `found`, which have just turned out to be wrong, without those of all
// other handlers that are `present`. That clients of such a key confirmed each other shows nothing
// any more, and others can compute the same again. `wrong` are all wrong clients.
std::set<tuplespace::ClientId> KeysInDoubt(const std::vector<tuplespace::ClientId>& found,
                                           const std::set<tuplespace::ClientId>& wrong,
                                           const std::set<tuplespace::ClientId>& present);

}  // namespace acan
