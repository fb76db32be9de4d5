// Builds the network that a plan is made for from what handlers report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "acan/core/names.h"
#include "acan/manager/placement.h"
#include "acan/manager/plan.h"
#include "acan/manager/planned_task.h"

namespace acan {

// The size from which handlers keep results where bytes cross links. Tiles of
// `least_kept_tile_bytes` or more stay with handlers (UINT64_MAX: no tile does). Results that only
// their own step reads stay from a smaller size on: through the broker they would cross its one
// link to each of their readers, including the maker. Small tiles do not stay, because a tile that
// stays is kept until a later version is safe.
std::uint64_t LeastKeptOverLinks(std::uint64_t least_kept_tile_bytes);

// Placing tasks on more handlers would take too long.
inline constexpr std::size_t kMaxPlacedHandlers = 64;
// The handlers on which tasks can be placed: all of them, or the best kMaxPlacedHandlers. Handlers
// with memory for the largest task are better than others, then fast ones, then those with more
// memory.
std::map<std::string, Capacity> HandlersToPlace(const std::map<std::string, Capacity>& handlers,
                                                std::uint64_t largest_need_bytes = 0);

// The network of HandlersToPlace(handlers), in the order of their client ids. `manager_machine` is
// the manager's Capacity::machine; the broker is assumed to run there, too. nullopt if there are
// fewer than `least_hosts` hosts. With one host, placing tasks gains nothing, but it estimates the
// time of a step with the links.
std::optional<HandlerNetwork> NetworkOf(const std::map<std::string, Capacity>& handlers,
                                        std::uint64_t least_kept_tile_bytes,
                                        const std::string& manager_machine = {},
                                        std::size_t least_hosts = 2);

// The tasks of a step, placed on the handlers.
struct PlacedStep {
  std::vector<std::string> ids;  // of network.handlers
  HandlerNetwork network;
  Placement placement;
};
// As PlaceOnBestPart for HandlersToPlace; the other arguments are those of NetworkOf. nullopt if
// there is no network.
std::optional<PlacedStep> PlaceStep(const std::map<std::string, Capacity>& handlers,
                                    const std::vector<PlannedTask>& step,
                                    std::uint64_t least_kept_tile_bytes,
                                    const std::string& manager_machine,
                                    std::size_t least_hosts = 2);

// The number of handlers on which PlaceStep may place so many tasks; 0 if there are too many tasks.
std::size_t MaxHandlersToPlace(std::size_t tasks);
// Why PlaceStep places nothing although there is a network, as the end of a sentence.
std::string WhyNotPlaced(std::size_t tasks, std::size_t handlers);

// For handlers that share memory. Of the handlers of one machine, the fastest count, as many as its
// processors suffice for: one more would take its time from the others.
WorkerSpeed SpeedOf(const std::map<std::string, Capacity>& handlers);

// The speed of each handler now, in GFLOP/s, by client id. Handlers of one kind on one machine may
// have measured at the same time; then the highest measurement counts for all. A handler that
// reports that it has become slower is slower.
std::map<std::string, double> PresentSpeeds(const std::map<std::string, Capacity>& handlers);

}  // namespace acan
