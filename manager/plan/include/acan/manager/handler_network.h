// Builds the network that a plan is made for from what handlers report.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "acan/core/names.h"
#include "acan/manager/placement.h"
#include "acan/manager/plan.h"

namespace acan {

// The size from which handlers keep results where bytes cross links. Tiles of
// `least_kept_tile_bytes` or more stay with handlers (UINT64_MAX: no tile does). Results that only
// their own step reads stay from a smaller size on: through the broker they would cross its one
// link to each of their readers, including the maker. Small tiles do not stay, because a tile that
// stays is kept until a later version is safe.
std::uint64_t LeastKeptOverLinks(std::uint64_t least_kept_tile_bytes);

// `handlers` is ordered by client id, as is HandlerNetwork::handlers. `manager_machine` is the
// manager's Capacity::machine; the broker is assumed to run there, too. nullopt if placing tasks
// gains nothing: there are fewer than two hosts, or more handlers than can be placed.
std::optional<HandlerNetwork> NetworkOf(const std::map<std::string, Capacity>& handlers,
                                        std::uint64_t least_kept_tile_bytes,
                                        const std::string& manager_machine = {});

// For handlers that share memory. Of the handlers of one machine, the fastest count, as many as its
// processors suffice for: one more would take its time from the others.
WorkerSpeed SpeedOf(const std::map<std::string, Capacity>& handlers);

}  // namespace acan
