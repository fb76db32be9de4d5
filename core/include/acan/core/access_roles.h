// The roles that keys may have, and what each of them needs of the space and nothing else.
#pragma once

#include <vector>

#include "tuplespace/access.h"

namespace acan {

inline constexpr const char* kHandlerRole = "handler";
inline constexpr const char* kManagerRole = "manager";
inline constexpr const char* kObserverRole = "observer";  // sees, and changes nothing

// A handler may take tasks, read what belongs to steps, complete its tasks with such, and say of
// itself what it is and did. A manager may do everything. An observer may read metadata of
// everything, and what handlers say of themselves, but no weights, data or results. The limit of a
// peer (AllowedPeer::limit) is how the ids of its jobs begin.
std::vector<tuplespace::Role> AccessRoles();

}  // namespace acan
