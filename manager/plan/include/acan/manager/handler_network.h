// The network that a plan is made for, from what handlers say of themselves.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "acan/core/names.h"
#include "acan/manager/placement.h"
#include "acan/manager/plan.h"

namespace acan {

// Tiles of so many bytes stay with handlers (UINT64_MAX: nothing does). Of results that only their
// step reads, smaller ones stay as well where bytes cross links: through the broker they would go
// to each of their readers, the maker included, over the one link of the broker. A tile that stays
// is kept until a later version is safe, so small tiles do not.
std::uint64_t LeastKeptOverLinks(std::uint64_t least_kept_tile_bytes);

// `handlers`: by client id, whose order is that of HandlerNetwork::handlers. `manager_machine`: as
// Capacity::machine; the broker is taken to be there, too. nullopt: nothing is to
// be gained by placing tasks, as there are no two hosts, or more handlers than can be placed.
std::optional<HandlerNetwork> NetworkOf(const std::map<std::string, Capacity>& handlers,
                                        std::uint64_t least_kept_tile_bytes,
                                        const std::string& manager_machine = {});

// Of handlers that share memory. Of those of one machine only as many count, the fastest first, as
// its processors suffice for: one more would take its time from the others.
HandlerShares SharesOf(const std::map<std::string, Capacity>& handlers);

}  // namespace acan
