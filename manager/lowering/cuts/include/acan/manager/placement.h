// Placement: which handler should run which task of a step where bytes cross links, and how long
// the step then takes by estimate. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "acan/core/parameter.h"
#include "acan/core/range.h"
#include "acan/manager/planned_task.h"

namespace acan {

// What has processors that all processes on it share. It has one host or, as where containers have
// addresses of their own, several.
struct HostMachine {
  int cores = 0;             // that handlers may use; 0: not known, enough for all
  bool has_manager = false;  // the manager and the broker compute there, too
};

// A host, and its way to all others, in either direction.
struct HostLink {
  double us_per_kib = 0;     // 0: the broker's host, whose handlers share its memory
  double round_trip_us = 0;  // to the broker and back
  std::size_t machine = 0;   // index into HandlerNetwork::machines
};

struct PlacedHandler {
  std::size_t host = 0;  // index into HandlerNetwork::hosts
  int threads = 1;
  double gflops = 0;  // 0: not known
  std::uint64_t memory_bytes = UINT64_MAX;
  double busy_cores = 1;  // of its machine, while it computes
};

struct HandlerNetwork {
  std::vector<HostMachine> machines;
  std::vector<HostLink> hosts;
  std::vector<PlacedHandler> handlers;
  HostLink manager;
  // Smaller tiles, and other results smaller than that, go to the broker at once.
  std::uint64_t least_kept_tile_bytes = 0;
  std::uint64_t least_kept_bytes = 0;
  // Smaller samples come from the broker, larger ones from the manager.
  std::uint64_t least_served_bytes = 0;
  // Smaller inputs come from the broker with each task that reads them: handlers keep neither them
  // nor what they make of that size.
  std::uint64_t least_held_bytes = 0;
};

// A tile, whatever its version.
struct TileId {
  MatrixId matrix;
  std::int64_t row = 0, column = 0;  // where it begins
  friend auto operator<=>(const TileId&, const TileId&) = default;
};
std::optional<TileId> TileIdOf(const tuplespace::Key& key);

struct LinkLoad {
  std::uint64_t out_bytes = 0, in_bytes = 0;
};

struct Placement {
  std::vector<int> handler_of;    // of each task: index into HandlerNetwork::handlers; -1: anybody
  std::map<TileId, int> home_of;  // the handler that makes the next version of a tile
  std::vector<LinkLoad> loads;    // of a step, by host
  std::uint64_t manager_bytes = 0;  // that leave the manager's host
  std::uint64_t broker_bytes = 0;   // that leave the broker's, of tuples that it has
  std::vector<double> cpu_us;       // of a step, by machine: of all its processors together
  double step_us = 0;               // infinite: not placed, or a task fits nowhere
};

enum class PlacementEffort : std::uint8_t {
  kQuick,     // to compare cuts
  kThorough,  // to run it: also moves what it has placed while a step takes less
};

// `tasks`: of a step, in an order in which they can run. The tiles are where the step before has
// made them. All that a handler lacks of the inputs of its task arrives over links that carry one
// tuple after the other; a handler fetches the inputs of a task while it runs the one before, which
// may be of the step before. The step takes at least as long as the cores of each machine compute,
// encrypt and pass messages. A placement with more effort never takes longer, by this estimate.
// REQUIRES: network.handlers is not empty.
Placement PlaceTasks(const HandlerNetwork& network, const std::vector<PlannedTask>& tasks,
                     PlacementEffort effort);

// Bytes of tiles that a handler can keep.
double RoomForTiles(const PlacedHandler& handler);

// Some of the handlers.
struct NetworkPart {
  HandlerNetwork network;     // with all hosts
  std::vector<int> handlers;  // their places in the whole
};
// All handlers; and fewer hosts, the fastest first, or fewer handlers of each, as a handler more
// may cost more than it brings. Handlers of a part that keep more cores busy than their machine has
// share these: each is slower than it has measured. The smallest part comes first.
std::vector<NetworkPart> PartsOf(const HandlerNetwork& network);
// Whether a step is so much shorter than with fewer handlers that the estimate can be believed.
bool BringsMore(double step_us, double step_us_of_fewer);
// As if it had been placed in the whole.
Placement OfWhole(Placement placement, const NetworkPart& part);
// On the part on which the step takes least; on none (step_us is infinite) where tasks and handlers
// are too many for the manager to wait for it.
Placement PlaceOnBestPart(const HandlerNetwork& network, const std::vector<PlannedTask>& tasks);

}  // namespace acan
