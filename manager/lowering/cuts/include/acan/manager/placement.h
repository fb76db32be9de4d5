// Placement: which handler should run each task of a step where bytes cross links, and the
// estimated time of the step. Pure.
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

// Hardware with processors that all processes on it share. It has one host, or several if, for
// example, containers have their own addresses.
struct HostMachine {
  int cores = 0;             // that handlers may use; 0: unknown, assumed to be enough
  bool has_manager = false;  // the manager and the broker run there, too
};

// A host, and its link to all others, in either direction.
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
  double busy_cores = 1;  // cores of its machine that are busy while it computes
};

struct HandlerNetwork {
  std::vector<HostMachine> machines;
  std::vector<HostLink> hosts;
  std::vector<PlacedHandler> handlers;
  HostLink manager;
  // Tiles below the first size, and other results below the second, are sent to the broker at once.
  std::uint64_t least_kept_tile_bytes = 0;
  std::uint64_t least_kept_bytes = 0;
  // Input data below this size comes from the broker, larger data from the manager.
  std::uint64_t least_served_bytes = 0;
  // Inputs below this size come from the broker with each task that reads them: handlers cache
  // neither such inputs nor their own results of that size.
  std::uint64_t least_held_bytes = 0;
};

// A tile, of any version.
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
  std::vector<int> handler_of;      // by task: index into HandlerNetwork::handlers; -1: any handler
  std::map<TileId, int> home_of;    // the handler that makes the next version of a tile
  std::vector<LinkLoad> loads;      // of one step, by host
  std::uint64_t manager_bytes = 0;  // sent from the manager's host
  std::uint64_t broker_bytes = 0;   // sent from the broker's host, of tuples that the broker holds
  std::vector<double> cpu_us;       // of one step, by machine: the sum over its processors
  double step_us = 0;               // infinite: not placed, or a task fits into no handler
};

enum class PlacementEffort : std::uint8_t {
  kQuick,     // to compare cuts
  kThorough,  // to run the placement: also moves placed tasks while that shortens the step
};

// `tasks` are those of a step, in an order in which they can run. Each tile lies where the previous
// step made it. The inputs that a handler lacks arrive over links that carry one tuple after
// another; a handler fetches the inputs of a task while it runs the task before, which may belong
// to the step before. The step takes at least as long as the cores of each machine need to compute,
// encrypt and pass messages. A placement with more effort never has a longer estimate.
// REQUIRES: network.handlers is not empty.
Placement PlaceTasks(const HandlerNetwork& network, const std::vector<PlannedTask>& tasks,
                     PlacementEffort effort);

// The time for these bytes to cross one link, the fastest. A rough figure for the inputs and
// results of tasks that are not placed. 0 if all hosts share the broker's memory.
double UsOverOneLink(const HandlerNetwork& network, std::uint64_t bytes);

// Bytes of tiles that a handler can keep.
double RoomForTiles(const PlacedHandler& handler);

// A subset of the handlers.
struct NetworkPart {
  HandlerNetwork network;     // with all hosts
  std::vector<int> handlers;  // their indices in the whole network
};
// The network of all handlers, and networks with fewer hosts, the fastest first, or fewer handlers
// per host, because an additional handler may cost more than it brings. If the handlers of a part
// need more cores than their machine has, they share them: each is slower than it has measured. The
// smallest part comes first.
std::vector<NetworkPart> PartsOf(const HandlerNetwork& network);
// Whether a step is so much shorter than with fewer handlers that the estimate is credible.
bool BringsMore(double step_us, double step_us_of_fewer);
// The placement with the handlers' indices in the whole network.
Placement OfWhole(Placement placement, const NetworkPart& part);
// Tasks times handlers. More would take seconds, during which the manager does nothing else.
inline constexpr std::size_t kMaxOffers = 65'536;
// Places the tasks on the part for which a step takes the least time. Leaves out the parts with
// more than kMaxOffers; places nothing (step_us is infinite) if these are all, or if the others
// have too little memory.
Placement PlaceOnBestPart(const HandlerNetwork& network, const std::vector<PlannedTask>& tasks);

}  // namespace acan
