#include "step_timeline.h"

#include <algorithm>
#include <utility>

namespace acan {
namespace {

// A large result is encrypted whole before it is sent, and decrypted and hashed after it arrives.
// This is the processor time at each end.
constexpr double kCpuUsPerKib = 2.5;
// Between two handlers of one host without shared memory, a handler makes one transfer at a time.
// The rate includes both ends and the kernel's copies.
constexpr double kUsPerKibWithinHost = 6;
// If computing keeps all cores busy, encryption gets half of one core.
constexpr double kCrowdedTimes = 2;
// Messages, matching, hashing. Round trips are counted separately.
constexpr double kTaskWorkUs = 80;
// Processor time per task: of its handler, and of the broker and the manager together.
constexpr double kTaskCpuUs = 60;
constexpr double kTaskCpuOfManagerUs = 100;
constexpr int kManager = -2;
constexpr int kBroker = -3;

double Us(std::uint64_t bytes, double us_per_kib) {
  return static_cast<double>(bytes) / 1024 * us_per_kib;
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

// Among the hosts other than the broker's.
double FastestUsPerKib(const HandlerNetwork& network) {
  double fastest = StepTimeline::kNever;
  for (const HostLink& link : network.hosts) {
    if (link.us_per_kib > 0) fastest = std::min(fastest, link.us_per_kib);
  }
  return fastest;
}

}  // namespace

StepTimeline::StepTimeline(const HandlerNetwork& network, const StepShape& shape,
                           const std::map<TileId, int>& home_of, std::size_t steps)
    : network_(network),
      shape_(shape),
      handlers_(network.handlers.size()),
      links_(network.hosts.size()),
      times_(TimesCrowded(network)),
      broker_us_per_kib_(FastestUsPerKib(network)),
      tuples_(steps * shape.tuples.size()),
      copies_(tuples_.size() * network.handlers.size(), kNever),
      ends_us_(steps, 0) {
  placed_.loads.resize(network.hosts.size());
  placed_.cpu_us.resize(network.machines.size());
  placed_.handler_of.assign(shape.tasks.size(), kAnybody);
  for (OfHandler& handler : handlers_) handler.tile_bytes.resize(steps, 0);
  for (TupleId i = 0; i < tuples_.size(); ++i) {
    const StepShape::OfTuple& tuple = ShapeOf(i);
    if (tuple.is_made || tuple.is_frozen) continue;
    if (tuple.tile) {
      const auto home = home_of.find(*tuple.tile);
      if (home != home_of.end()) tuples_[i].owner = home->second;
      continue;
    }
    // The manager puts a step's data before the step begins.
    const bool is_sent_by_manager = tuple.bytes >= network.least_served_bytes;
    tuples_[i].owner = is_sent_by_manager ? kManager : kBroker;
    if (i < shape.tuples.size() && !is_sent_by_manager) placed_.manager_bytes += tuple.bytes;
  }
}

StepTimeline::TupleId StepTimeline::TupleOf(std::size_t step, std::size_t tuple) const {
  const std::optional<std::size_t>& next = shape_.tuples[tuple].next_version;
  const bool was_made = step > 0 && next.has_value();
  return was_made ? (step - 1) * shape_.tuples.size() + *next : step * shape_.tuples.size() + tuple;
}

Placement StepTimeline::Take() {
  for (std::size_t m = 0; m < network_.machines.size(); ++m) {
    const int cores = network_.machines[m].cores;
    if (cores > 0) placed_.step_us = std::max(placed_.step_us, placed_.cpu_us[m] / cores);
  }
  return std::move(placed_);
}

// ---- processor time ----------------------------------------------------------------------------

void StepTimeline::AddCpu(int handler, double us) {
  if (counts_ && handler >= 0) placed_.cpu_us[LinkOf(handler).machine] += us;
}

void StepTimeline::AddCpuOfManager(double us) {
  for (std::size_t m = 0; counts_ && m < network_.machines.size(); ++m) {
    if (network_.machines[m].has_manager) placed_.cpu_us[m] += us;
  }
}

// `owner` is a handler, kManager or kBroker.
void StepTimeline::AddCpuOfTransfer(int owner, int handler, std::uint64_t bytes) {
  const double us = Us(bytes, kCpuUsPerKib);
  AddCpu(handler, us);
  owner >= 0 ? AddCpu(owner, us) : AddCpuOfManager(us);
}

// ---- transfers ---------------------------------------------------------------------------------

// When the tuple is there without a transfer; kNever: it needs one.
double StepTimeline::Known(TupleId tuple, int handler) {
  const At& at = tuples_[tuple];
  if (at.owner == kAnybody) return 0;
  if (at.owner == handler) return at.ready_us;
  if (const double copied_us = CopyAt(tuple, handler); copied_us < kNever) return copied_us;
  const bool near_broker =
      at.owner < 0 ? at.owner == kBroker || at.owner == kManager : SharesMemory(at.owner);
  return SharesMemory(handler) && near_broker ? at.ready_us : kNever;
}

double StepTimeline::ArrivalWithinHost(TupleId tuple, int handler, double grant_us, bool commit) {
  Link& source = handlers_[static_cast<std::size_t>(tuples_[tuple].owner)].within;
  Link& target = handlers_[static_cast<std::size_t>(handler)].within;
  const double arrival_us =
      std::max({grant_us, source.out_free_us, target.in_free_us}) +
      Us(ShapeOf(tuple).bytes, kUsPerKibWithinHost) * times_[LinkOf(handler).machine];
  if (commit) source.out_free_us = target.in_free_us = arrival_us;
  return arrival_us;
}

double StepTimeline::ArrivalOverLink(TupleId tuple, int handler, double grant_us, bool commit,
                                     double* link_us) {
  const int owner = tuples_[tuple].owner;
  const std::uint64_t bytes = ShapeOf(tuple).bytes;
  const std::size_t to = network_.handlers[static_cast<std::size_t>(handler)].host;
  const std::size_t from =
      owner >= 0 ? network_.handlers[static_cast<std::size_t>(owner)].host : to;
  const HostLink& into = network_.hosts[to];
  Link& source = owner == kManager ? manager_ : links_[from];
  const HostLink& out = owner == kManager ? network_.manager : network_.hosts[from];
  // Tuples that the broker holds were sent to it when they were made.
  const bool leaves = owner != kBroker;
  const double us_per_kib = leaves ? std::max(out.us_per_kib, into.us_per_kib) : into.us_per_kib;
  const double takes_us = Us(bytes, us_per_kib);
  const double asks_us = leaves ? (out.round_trip_us + into.round_trip_us) / 2 : 0;
  const double begin_us = std::max({grant_us + asks_us, links_[to].in_free_us,
                                    leaves ? source.out_free_us : broker_out_free_us_});
  const double left_us = begin_us + takes_us;
  *link_us += takes_us;
  if (commit) {
    links_[to].in_free_us = left_us;
    const std::uint64_t counted = counts_ ? bytes : 0;
    placed_.loads[to].in_bytes += counted;
    if (!leaves) {
      // The broker's link is assumed to be as fast as the fastest measured one, because all of them
      // end there.
      broker_out_free_us_ = begin_us + Us(bytes, broker_us_per_kib_);
      placed_.broker_bytes += counted;
    } else {
      source.out_free_us = left_us;
      (owner == kManager ? placed_.manager_bytes : placed_.loads[from].out_bytes) += counted;
    }
  }
  return left_us + Us(bytes, kCpuUsPerKib) * (times_[out.machine] + times_[into.machine]);
}

// When `handler` could have the tuple. With `commit`, the transfer takes place.
double StepTimeline::ArrivalUs(TupleId tuple, int handler, double grant_us, bool commit,
                               double* link_us) {
  if (const double there_us = Known(tuple, handler); there_us < kNever) return there_us;
  const int owner = tuples_[tuple].owner;
  const auto host_of = [&](int h) { return network_.handlers[static_cast<std::size_t>(h)].host; };
  const bool is_near = owner >= 0 && host_of(owner) == host_of(handler);
  const double arrival_us = is_near ? ArrivalWithinHost(tuple, handler, grant_us, commit)
                                    : ArrivalOverLink(tuple, handler, grant_us, commit, link_us);
  if (commit) {
    const std::uint64_t bytes = ShapeOf(tuple).bytes;
    AddCpuOfTransfer(owner, handler, bytes);
    // A small tuple is not kept: it arrives again with the next task that reads it.
    if (bytes >= network_.least_held_bytes) CopyAt(tuple, handler) = arrival_us;
  }
  return arrival_us;
}

// ---- tasks -------------------------------------------------------------------------------------

bool StepTimeline::Fits(const TaskOfStep& of, int handler) const {
  const StepShape::OfTask& task = shape_.tasks[of.task];
  const auto h = static_cast<std::size_t>(handler);
  if (task.need_bytes > network_.handlers[h].memory_bytes) return false;
  const auto tile_bytes = static_cast<double>(handlers_[h].tile_bytes[of.step] + task.tile_bytes);
  return task.tile_bytes == 0 || tile_bytes <= RoomForTiles(network_.handlers[h]);
}

double StepTimeline::ReadyUs(const TaskOfStep& of) const {
  double us = 0;
  for (const std::size_t input : shape_.tasks[of.task].inputs) {
    us = std::max(us, tuples_[TupleOf(of.step, input)].ready_us);
  }
  return us;
}

// A handler fetches the missing inputs of a granted task, even while it runs the task before.
double StepTimeline::BeginUs(const TaskOfStep& of, int handler, bool commit, double* link_us) {
  const auto h = static_cast<std::size_t>(handler);
  const double grant_us = std::max(ReadyUs(of), handlers_[h].last_begin_us);
  Link& into = links_[network_.handlers[h].host];
  const Link before = into;
  double begin_us = grant_us;
  for (const std::size_t input : shape_.tasks[of.task].inputs) {
    begin_us =
        std::max(begin_us, ArrivalUs(TupleOf(of.step, input), handler, grant_us, commit, link_us));
    // The next input follows this one. Without `commit`, the link is reset afterwards.
    if (!commit) into.in_free_us = std::max(into.in_free_us, begin_us);
  }
  if (!commit) into = before;
  return std::max(begin_us + LinkOf(handler).round_trip_us / 2, handlers_[h].free_us);
}

StepTimeline::Offer StepTimeline::OfferOf(const TaskOfStep& of, int handler) {
  Offer offer;
  const double begin_us = BeginUs(of, handler, false, &offer.link_us);
  offer.end_us =
      begin_us + shape_.task_us[static_cast<std::size_t>(handler)][of.task] + kTaskWorkUs / 2;
  return offer;
}

void StepTimeline::Settle(const TaskOfStep& of, int handler) {
  const StepShape::OfTask& task = shape_.tasks[of.task];
  const auto h = static_cast<std::size_t>(handler);
  const double task_us = shape_.task_us[h][of.task];
  counts_ = IsLast(of.step);
  double link_us = 0;
  const double begin_us = BeginUs(of, handler, true, &link_us);
  const double end_us = begin_us + task_us + kTaskWorkUs / 2;
  handlers_[h].last_begin_us = begin_us;
  handlers_[h].free_us = end_us;
  handlers_[h].tile_bytes[of.step] += task.tile_bytes;
  AddCpu(handler, task_us * network_.handlers[h].busy_cores + kTaskCpuUs);
  AddCpuOfManager(kTaskCpuOfManagerUs);
  placed_.handler_of[of.task] = handler;
  for (const std::size_t input : task.inputs) {
    At& at = tuples_[TupleOf(of.step, input)];
    if (at.owner == kAnybody && !shape_.tuples[input].is_frozen) at = {handler, 0};
  }
  for (const std::size_t output : task.outputs) {
    Make(TupleOf(of.step, output), handler, end_us);
    if (shape_.tuples[output].tile) placed_.home_of[*shape_.tuples[output].tile] = handler;
  }
  ends_us_[of.step] = std::max(ends_us_[of.step], end_us);
}

// Small results are sent to the broker in the message that completes the task.
void StepTimeline::Make(TupleId tuple, int handler, double end_us) {
  const std::uint64_t bytes = ShapeOf(tuple).bytes;
  const std::size_t host = network_.handlers[static_cast<std::size_t>(handler)].host;
  const HostLink& link = network_.hosts[host];
  At& at = tuples_[tuple];
  at = {handler, end_us + link.round_trip_us / 2};
  const bool is_tile = ShapeOf(tuple).tile.has_value();
  const std::uint64_t least = is_tile ? network_.least_kept_tile_bytes : network_.least_kept_bytes;
  if (bytes >= least || SharesMemory(handler)) return;
  // Small results hardly fill the link, and tasks that are placed later may need it earlier.
  if (counts_) placed_.loads[host].out_bytes += bytes;
  AddCpuOfTransfer(kBroker, handler, bytes);
  at = {kBroker, end_us + Us(bytes, link.us_per_kib) + link.round_trip_us / 2};
  // Its maker keeps a copy.
  if (is_tile || bytes >= network_.least_held_bytes) CopyAt(tuple, handler) = end_us;
}

}  // namespace acan
