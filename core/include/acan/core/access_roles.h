// The roles that keys may have, and the minimum rights of each in the space.
#pragma once

#include <vector>

#include "tuplespace/access.h"

namespace acan {

inline constexpr const char* kHandlerRole = "handler";
inline constexpr const char* kManagerRole = "manager";
inline constexpr const char* kObserverRole = "observer";  // reads, and changes nothing

// A handler may take tasks, read tuples of steps, complete its tasks with such tuples, and publish
// its own capacity and reports. A manager may do everything. An observer may read the metadata of
// all tuples and what handlers publish about themselves, but no weights, data or results. The limit
// of a peer (AllowedPeer::limit) is a prefix of the ids of its jobs.
std::vector<tuplespace::Role> AccessRoles();

}  // namespace acan
