// The network that a plan is made for, from what handlers say of themselves.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "acan/core/names.h"
#include "acan/manager/placement.h"

namespace acan {

// `handlers`: by client id, whose order is that of HandlerNetwork::handlers. nullopt: nothing is to
// be gained by placing tasks, as there are no two hosts, or more handlers than can be placed.
std::optional<HandlerNetwork> NetworkOf(const std::map<std::string, Capacity>& handlers,
                                        std::uint64_t least_kept_bytes);

}  // namespace acan
