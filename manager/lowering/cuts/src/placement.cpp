#include "acan/manager/placement.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "acan/manager/task_cost.h"
#include "acan/manager/tuple_names.h"

namespace acan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// A large result is encrypted whole before it leaves, and decrypted and hashed when it is there:
// processor time, at each end.
constexpr double kCpuUsPerKib = 2.5;
// Between two handlers of one host that share no memory, a handler makes one transfer after the
// other. It is both ends, and the kernel's copies.
constexpr double kUsPerKibWithinHost = 6;
// Where computing keeps all cores busy, encryption gets half of one.
constexpr double kCrowdedTimes = 2;
// Messages, matching, hashing. What a round trip takes counts by itself.
constexpr double kTaskWorkUs = 80;
// Processor time of a task: of its handler, and of the broker and the manager together.
constexpr double kTaskCpuUs = 60;
constexpr double kTaskCpuOfManagerUs = 100;
constexpr int kRounds = 4;
constexpr double kPartForTiles = 0.75;  // of a handler's memory
// Tasks times handlers; more would take seconds, in which the manager does nothing else.
constexpr std::size_t kMostOffers = 65'536;
constexpr int kAnybody = -1;
constexpr int kManager = -2;
constexpr int kBroker = -3;

// What the placement of a step has to know of its tasks, with numbers in place of keys.
struct StepShape {
  struct OfTask {
    std::vector<std::size_t> inputs, outputs;
    std::uint64_t need_bytes = 0;
    std::uint64_t tile_bytes = 0;  // of outputs that are tiles
  };
  struct OfTuple {
    std::uint64_t bytes = 0;
    std::optional<TileId> tile;
    bool is_made = false;    // by a task of the step
    bool is_frozen = false;  // a tile that handlers keep from step to step
  };
  std::vector<OfTask> tasks;
  std::vector<OfTuple> tuples;
};

StepShape ShapeOf(const std::vector<PlannedTask>& tasks) {
  StepShape shape;
  std::unordered_map<tuplespace::Key, std::size_t> numbers;
  const auto number_of = [&](const tuplespace::Key& key) {
    const auto [at, is_new] = numbers.try_emplace(key, shape.tuples.size());
    if (!is_new) return at->second;
    StepShape::OfTuple& tuple = shape.tuples.emplace_back();
    tuple.tile = TileIdOf(key);
    tuple.is_frozen = !tuple.tile && TileOfKey(key);
    return at->second;
  };
  for (const PlannedTask& planned : tasks) {
    StepShape::OfTask task;
    for (const tuplespace::Key& key : planned.inputs) task.inputs.push_back(number_of(key));
    for (const Piece& piece : planned.task.pieces) {
      shape.tuples[task.inputs[piece.input]].bytes = BufferSpec{piece.rows, piece.cols}.bytes();
    }
    for (const Output& output : planned.task.outputs) {
      task.outputs.push_back(number_of(output.key));
      StepShape::OfTuple& tuple = shape.tuples[task.outputs.back()];
      tuple.bytes = output.view.bytes();
      tuple.is_made = true;
      if (tuple.tile) task.tile_bytes += tuple.bytes;
    }
    task.need_bytes = NeedBytes(planned.task);
    shape.tasks.push_back(std::move(task));
  }
  return shape;
}

std::vector<double> TimesCrowded(const HandlerNetwork& network) {
  std::vector<double> busy(network.machines.size(), 0);
  for (const PlacedHandler& handler : network.handlers) {
    busy[network.hosts[handler.host].machine] += handler.busy_cores;
  }
  std::vector<double> times;
  for (std::size_t m = 0; m < busy.size(); ++m) {
    const int cores = network.machines[m].cores;
    times.push_back(cores > 0 && busy[m] + 1 > cores ? kCrowdedTimes : 1);
  }
  return times;
}

// Of hosts beside the broker's.
double FastestUsPerKib(const HandlerNetwork& network) {
  double fastest = kNever;
  for (const HostLink& link : network.hosts) {
    if (link.us_per_kib > 0) fastest = std::min(fastest, link.us_per_kib);
  }
  return fastest;
}

// One step, beginning with tiles at their homes.
class Round {
 public:
  Round(const HandlerNetwork& network, const StepShape& shape,
        const std::vector<std::vector<double>>& task_us, double link_weight)
      : network_(network),
        shape_(shape),
        task_us_(task_us),
        link_weight_(link_weight),
        free_us_(network.handlers.size(), 0),
        tile_bytes_(network.handlers.size(), 0),
        links_(network.hosts.size()),
        within_(network.handlers.size()),
        tuples_(shape.tuples.size()) {
    times_ = TimesCrowded(network);
    broker_us_per_kib_ = FastestUsPerKib(network);
    placed_.loads.resize(network.hosts.size());
    placed_.cpu_us.resize(network.machines.size());
  }

  Placement Run(const std::map<TileId, int>& home_of) && {
    for (std::size_t i = 0; i < tuples_.size(); ++i) Begin(i, home_of);
    for (std::size_t t = 0; t < shape_.tasks.size(); ++t) PlaceOne(t);
    for (std::size_t m = 0; m < network_.machines.size(); ++m) {
      const int cores = network_.machines[m].cores;
      if (cores > 0) placed_.step_us = std::max(placed_.step_us, placed_.cpu_us[m] / cores);
    }
    return std::move(placed_);
  }

 private:
  struct Link {
    double out_free_us = 0, in_free_us = 0;
  };
  struct At {
    int owner = kAnybody;        // a handler, kManager or kBroker
    double ready_us = 0;         // there, and known to the broker
    std::vector<double> copies;  // when each handler has it; empty: none but the owner
  };

  const HostLink& LinkOf(int handler) const {
    return network_.hosts[network_.handlers[static_cast<std::size_t>(handler)].host];
  }
  bool SharesMemory(int handler) const { return LinkOf(handler).us_per_kib == 0; }
  void AddCpu(int handler, double us) {
    if (handler >= 0) placed_.cpu_us[LinkOf(handler).machine] += us;
  }
  void AddCpuOfManager(double us) {
    for (std::size_t m = 0; m < network_.machines.size(); ++m) {
      if (network_.machines[m].has_manager) placed_.cpu_us[m] += us;
    }
  }
  // `owner` is a handler, kManager or kBroker.
  void AddCpuOfTransfer(int owner, int handler, std::uint64_t bytes) {
    const double us = Us(bytes, kCpuUsPerKib);
    AddCpu(handler, us);
    owner >= 0 ? AddCpu(owner, us) : AddCpuOfManager(us);
  }
  static double Us(std::uint64_t bytes, double us_per_kib) {
    return static_cast<double>(bytes) / 1024 * us_per_kib;
  }

  void Begin(std::size_t tuple, const std::map<TileId, int>& home_of) {
    const StepShape::OfTuple& shape = shape_.tuples[tuple];
    if (shape.is_made || shape.is_frozen) return;
    At& at = tuples_[tuple];
    if (!shape.tile) {
      const bool is_sent_by_manager = shape.bytes >= network_.least_held_bytes;
      at.owner = is_sent_by_manager ? kManager : kBroker;
      if (!is_sent_by_manager) placed_.manager_bytes += shape.bytes;
    } else if (const auto home = home_of.find(*shape.tile); home != home_of.end()) {
      at.owner = home->second;
    }
  }

  // When `handler` could have the tuple. With `commit`, it gets it.
  double ArrivalUs(std::size_t tuple, int handler, bool commit, double* link_us) {
    At& at = tuples_[tuple];
    const double there_us = Known(at, handler);
    if (there_us < kNever) return there_us;
    const std::uint64_t bytes = shape_.tuples[tuple].bytes;
    const std::size_t to = network_.handlers[static_cast<std::size_t>(handler)].host;
    const HostLink& into = network_.hosts[to];
    const bool from_handler = at.owner >= 0;
    const std::size_t from =
        from_handler ? network_.handlers[static_cast<std::size_t>(at.owner)].host : to;
    double arrival_us = 0;
    if (from_handler && from == to) {
      Link& source = within_[static_cast<std::size_t>(at.owner)];
      Link& target = within_[static_cast<std::size_t>(handler)];
      arrival_us = std::max({at.ready_us, source.out_free_us, target.in_free_us}) +
                   Us(bytes, kUsPerKibWithinHost) * times_[into.machine];
      if (commit) source.out_free_us = target.in_free_us = arrival_us;
    } else {
      Link& of_manager = manager_;
      Link& source = at.owner == kManager ? of_manager : links_[from];
      const HostLink& out = at.owner == kManager ? network_.manager : network_.hosts[from];
      // What the broker has was sent there when it was made.
      const bool leaves = at.owner != kBroker;
      const double us_per_kib =
          leaves ? std::max(out.us_per_kib, into.us_per_kib) : into.us_per_kib;
      const double takes_us = Us(bytes, us_per_kib);
      const double asks_us = leaves ? (out.round_trip_us + into.round_trip_us) / 2 : 0;
      const double begin_us = std::max({at.ready_us + asks_us, links_[to].in_free_us,
                                        leaves ? source.out_free_us : broker_out_free_us_});
      const double left_us = begin_us + takes_us;
      arrival_us = left_us + Us(bytes, kCpuUsPerKib) * (times_[out.machine] + times_[into.machine]);
      *link_us += takes_us;
      if (commit) {
        links_[to].in_free_us = left_us;
        placed_.loads[to].in_bytes += bytes;
        if (!leaves) {
          // Its link is as fast as the fastest that was measured, all of which ended there.
          broker_out_free_us_ = begin_us + Us(bytes, broker_us_per_kib_);
          placed_.broker_bytes += bytes;
        } else {
          source.out_free_us = left_us;
          (at.owner == kManager ? placed_.manager_bytes : placed_.loads[from].out_bytes) += bytes;
        }
      }
    }
    if (commit) {
      AddCpuOfTransfer(at.owner, handler, bytes);
      // A small one is not kept: it comes again with the next task that reads it.
      if (bytes >= network_.least_held_bytes) {
        at.copies.resize(network_.handlers.size(), kNever);
        at.copies[static_cast<std::size_t>(handler)] = arrival_us;
      }
    }
    return arrival_us;
  }

  // When it is there without a transfer; kNever: it is not.
  double Known(const At& at, int handler) const {
    if (at.owner == kAnybody) return 0;
    if (at.owner == handler) return at.ready_us;
    if (!at.copies.empty() && at.copies[static_cast<std::size_t>(handler)] < kNever) {
      return at.copies[static_cast<std::size_t>(handler)];
    }
    const bool near_broker =
        at.owner < 0 ? at.owner == kBroker || at.owner == kManager : SharesMemory(at.owner);
    return SharesMemory(handler) && near_broker ? at.ready_us : kNever;
  }

  struct Offer {
    double end_us = kNever;
    double score = kNever;
  };
  Offer OfferOf(std::size_t t, int handler, bool commit) {
    const StepShape::OfTask& task = shape_.tasks[t];
    const auto h = static_cast<std::size_t>(handler);
    const PlacedHandler& who = network_.handlers[h];
    const auto room = kPartForTiles * static_cast<double>(who.memory_bytes);
    const bool is_full =
        task.tile_bytes > 0 && static_cast<double>(tile_bytes_[h] + task.tile_bytes) > room;
    if (task.need_bytes > who.memory_bytes || is_full) return {};
    const Link to_before = links_[who.host];
    double begin_us = 0, link_us = 0;
    for (const std::size_t input : task.inputs) {
      begin_us = std::max(begin_us, ArrivalUs(input, handler, commit, &link_us));
      // The next one comes behind it; without a commit nothing of this stays.
      if (!commit) links_[who.host].in_free_us = std::max(links_[who.host].in_free_us, begin_us);
    }
    if (!commit) links_[who.host] = to_before;
    begin_us = std::max(begin_us + LinkOf(handler).round_trip_us / 2, free_us_[h]);
    const double end_us = begin_us + task_us_[h][t] + kTaskWorkUs / 2;
    return {end_us, end_us + link_weight_ * link_us};
  }

  void PlaceOne(std::size_t t) {
    int best = kAnybody;
    Offer best_offer;
    for (int h = 0; h < static_cast<int>(network_.handlers.size()); ++h) {
      const Offer offer = OfferOf(t, h, false);
      if (offer.score < best_offer.score) {
        best = h;
        best_offer = offer;
      }
    }
    placed_.handler_of.push_back(best);
    if (best == kAnybody) {
      placed_.step_us = kNever;
    } else {
      Settle(t, best);
    }
  }

  void Settle(std::size_t t, int handler) {
    const StepShape::OfTask& task = shape_.tasks[t];
    const auto h = static_cast<std::size_t>(handler);
    const double end_us = OfferOf(t, handler, true).end_us;
    free_us_[h] = end_us;
    AddCpu(handler, task_us_[h][t] * network_.handlers[h].busy_cores + kTaskCpuUs);
    AddCpuOfManager(kTaskCpuOfManagerUs);
    tile_bytes_[h] += task.tile_bytes;
    for (const std::size_t input : task.inputs) {
      const bool is_free = tuples_[input].owner == kAnybody && !shape_.tuples[input].is_frozen;
      if (is_free) tuples_[input] = {handler, 0, {}};
    }
    for (const std::size_t output : task.outputs) {
      Make(output, handler, end_us);
      if (shape_.tuples[output].tile) placed_.home_of[*shape_.tuples[output].tile] = handler;
    }
    placed_.step_us = std::max(placed_.step_us, end_us);
  }

  // Small results go to the broker with the message that says that the task is done.
  void Make(std::size_t tuple, int handler, double end_us) {
    const std::uint64_t bytes = shape_.tuples[tuple].bytes;
    const std::size_t host = network_.handlers[static_cast<std::size_t>(handler)].host;
    const HostLink& link = network_.hosts[host];
    At& at = tuples_[tuple];
    at.owner = handler;
    at.ready_us = end_us + link.round_trip_us / 2;
    const bool is_tile = shape_.tuples[tuple].tile.has_value();
    const std::uint64_t least =
        is_tile ? network_.least_kept_tile_bytes : network_.least_kept_bytes;
    if (bytes >= least || SharesMemory(handler)) return;
    // They hardly fill the link, and tasks that are placed later may need it earlier.
    placed_.loads[host].out_bytes += bytes;
    AddCpuOfTransfer(kBroker, handler, bytes);
    at.owner = kBroker;
    at.ready_us = end_us + Us(bytes, link.us_per_kib) + link.round_trip_us / 2;
    if (!is_tile) return;  // nor does its maker keep it
    at.copies.assign(network_.handlers.size(), kNever);
    at.copies[static_cast<std::size_t>(handler)] = end_us;
  }

  const HandlerNetwork& network_;
  const StepShape& shape_;
  const std::vector<std::vector<double>>& task_us_;  // by handler and task
  const double link_weight_;
  std::vector<double> free_us_;
  std::vector<std::uint64_t> tile_bytes_;
  std::vector<Link> links_;
  std::vector<double> times_;  // by machine: how many times as long encryption takes
  std::vector<Link> within_;   // by handler: to and from others of its host
  Link manager_;
  double broker_us_per_kib_ = 0;
  double broker_out_free_us_ = 0;  // for what it has; what stays elsewhere does not pass it
  std::vector<At> tuples_;
  Placement placed_;
};

Placement NotPlaced(std::size_t tasks) {
  Placement placed;
  placed.handler_of.assign(tasks, kAnybody);
  placed.step_us = kNever;
  return placed;
}

std::vector<std::vector<double>> TaskTimes(const HandlerNetwork& network,
                                           const std::vector<PlannedTask>& tasks) {
  std::map<double, std::vector<double>> of_speed;
  for (const PlacedHandler& handler : network.handlers) {
    std::vector<double>& times = of_speed[handler.gflops];
    if (!times.empty()) continue;
    for (const PlannedTask& task : tasks) {
      times.push_back(TaskUs({.gflops = handler.gflops}, task.task));
    }
  }
  std::vector<std::vector<double>> by_handler;
  for (const PlacedHandler& handler : network.handlers) {
    by_handler.push_back(of_speed.at(handler.gflops));
  }
  return by_handler;
}

}  // namespace

std::optional<TileId> TileIdOf(const tuplespace::Key& key) {
  const auto tile = TileOfKey(key);
  if (!tile || tile->second.frozen) return std::nullopt;
  return TileId{tile->second.matrix, tile->second.outputs.begin, tile->second.inputs.begin};
}

Placement PlaceTasks(const HandlerNetwork& network, const std::vector<PlannedTask>& tasks) {
  const StepShape shape = ShapeOf(tasks);
  const std::vector<std::vector<double>> task_us = TaskTimes(network, tasks);
  std::optional<Placement> best;
  // To end a task as soon as possible may fill a link that others need.
  for (const double link_weight : {0.0, 1.0}) {
    std::map<TileId, int> home_of;
    for (int round = 0; round < kRounds; ++round) {
      Placement placed = Round(network, shape, task_us, link_weight).Run(home_of);
      const bool settled = placed.home_of == home_of;
      home_of = placed.home_of;
      // In the first round tiles are wherever they are wanted.
      if (round > 0 && (!best || placed.step_us < best->step_us)) best = std::move(placed);
      if (settled && round > 0) break;
    }
  }
  return std::move(*best);
}

namespace {

void ShareCores(HandlerNetwork* network) {
  std::vector<double> busy(network->machines.size(), 0);
  const auto machine_of = [&](const PlacedHandler& handler) {
    return network->hosts[handler.host].machine;
  };
  for (const PlacedHandler& handler : network->handlers) {
    busy[machine_of(handler)] += handler.busy_cores;
  }
  for (PlacedHandler& handler : network->handlers) {
    const int cores = network->machines[machine_of(handler)].cores;
    const double share = cores / std::max(busy[machine_of(handler)], 1e-9);
    if (cores == 0 || share >= 1 || handler.busy_cores == 0) continue;
    handler.gflops *= share;
    handler.busy_cores *= share;
  }
}

}  // namespace

std::vector<NetworkPart> PartsOf(const HandlerNetwork& network) {
  std::vector<std::pair<double, std::size_t>> hosts;  // by speed
  std::vector<int> members(network.hosts.size(), 0);
  for (std::size_t h = 0; h < network.hosts.size(); ++h) hosts.emplace_back(0, h);
  for (const PlacedHandler& handler : network.handlers) {
    hosts[handler.host].first -= handler.gflops;
    ++members[handler.host];
  }
  std::stable_sort(hosts.begin(), hosts.end());
  const int most_members = *std::max_element(members.begin(), members.end());
  const auto counts = [](std::size_t most) {
    std::vector<std::size_t> counted{most};
    for (std::size_t count = 1; count < most; count *= 2) counted.push_back(count);
    return counted;
  };
  std::vector<NetworkPart> parts;
  for (const std::size_t of_hosts : counts(hosts.size())) {
    for (const std::size_t of_each : counts(static_cast<std::size_t>(most_members))) {
      NetworkPart part{network, {}};
      part.network.handlers.clear();
      std::vector<std::size_t> taken(network.hosts.size(), 0);
      std::vector<bool> is_used(network.hosts.size(), false);
      for (std::size_t i = 0; i < of_hosts; ++i) is_used[hosts[i].second] = true;
      for (std::size_t i = 0; i < network.handlers.size(); ++i) {
        const std::size_t host = network.handlers[i].host;
        if (!is_used[host] || taken[host]++ >= of_each) continue;
        part.network.handlers.push_back(network.handlers[i]);
        part.handlers.push_back(static_cast<int>(i));
      }
      ShareCores(&part.network);
      parts.push_back(std::move(part));
    }
  }
  std::ranges::stable_sort(parts, {}, [](const NetworkPart& part) { return part.handlers.size(); });
  return parts;
}

Placement OfWhole(Placement placement, const NetworkPart& part) {
  const auto in_whole = [&](int& handler) {
    if (handler >= 0) handler = part.handlers[static_cast<std::size_t>(handler)];
  };
  for (int& handler : placement.handler_of) in_whole(handler);
  for (auto& [tile, handler] : placement.home_of) in_whole(handler);
  return placement;
}

bool BringsMore(double step_us, double step_us_of_fewer) {
  constexpr double kGain = 0.9;  // less may be the estimate's error
  return step_us < kGain * step_us_of_fewer;
}

Placement PlaceOnBestPart(const HandlerNetwork& network, const std::vector<PlannedTask>& tasks) {
  if (tasks.size() * network.handlers.size() > kMostOffers) return NotPlaced(tasks.size());
  std::optional<Placement> best;
  for (const NetworkPart& part : PartsOf(network)) {
    Placement placed = PlaceTasks(part.network, tasks);
    if (!best || BringsMore(placed.step_us, best->step_us)) best = OfWhole(std::move(placed), part);
  }
  return std::move(*best);
}

}  // namespace acan
