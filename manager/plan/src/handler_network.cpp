#include "acan/manager/handler_network.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace acan {
namespace {

// Assumed until measured: 1 Gbit/s, and a switch.
constexpr double kAssumedUsPerKib = 8;
constexpr double kAssumedRoundTripUs = 200;
constexpr double kOtherKind = 1.9;  // factor between kinds of links: 1 and 2.5 Gbit/s, or 5 and 10
constexpr double kMaxShared = 8;
constexpr double kMinShare = 0.5;  // of the cores that a handler needs, for it to count
constexpr double kMinBusy = 0.95;  // minimum share of its threads, unless a handler is throttled

double KnownOr(std::uint32_t measured, double scale, double assumed) {
  return measured > 0 ? measured * scale : assumed;
}

// Numbers the hosts in the order in which they are first requested.
class Hosts {
 public:
  // Handlers that share the broker's memory are on its host. Other handlers with the same address
  // are on one host; one without a known address has a host of its own.
  std::size_t NumberOf(const std::string& id, const Capacity& capacity) {
    std::string name;
    if (capacity.bytes_travel) name = capacity.host.empty() ? "id " + id : "at " + capacity.host;
    return numbers_.try_emplace(std::move(name), numbers_.size()).first->second;
  }
  std::size_t size() const { return numbers_.size(); }

 private:
  std::map<std::string, std::size_t> numbers_;
};

// The machines of hosts, and the processors of them that handlers may use.
class Machines {
 public:
  // `host` is the number of the handler's host.
  std::size_t NumberOf(std::size_t host, const Capacity& capacity) {
    std::string name = capacity.machine.empty() ? std::to_string(host) : "id " + capacity.machine;
    return numbers_.try_emplace(std::move(name), numbers_.size()).first->second;
  }
  void Add(std::size_t machine, const Capacity& capacity) {
    cpus_.resize(numbers_.size());
    host_threads_.resize(numbers_.size(), 0);
    cpus_[machine].insert(capacity.cpus.begin(), capacity.cpus.end());
    host_threads_[machine] = std::max(host_threads_[machine], capacity.host_threads);
  }
  std::vector<HostMachine> List(const std::string& manager_machine) const {
    std::vector<HostMachine> machines(numbers_.size());
    for (std::size_t m = 0; m < machines.size(); ++m) {
      const int known = static_cast<int>(cpus_[m].size());
      machines[m].cores = known > 0 ? known : host_threads_[m];
    }
    const auto of_manager = numbers_.find("id " + manager_machine);
    if (of_manager != numbers_.end()) machines[of_manager->second].has_manager = true;
    return machines;
  }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::set<int>> cpus_;
  std::vector<int> host_threads_;  // of handlers that do not name their processors
};

double BusyCores(const Capacity& capacity) {
  if (capacity.machine.empty()) return std::max(1, capacity.threads);
  return std::min<double>(capacity.busy_cpus, std::max(1, capacity.threads));
}

// How many of a handler's tasks, or parts of one, run at once. The compute units of a GPU share
// each kernel, and the next task begins only when they are idle.
int ThreadsOf(const Capacity& capacity) {
  return capacity.own_memory ? 1 : std::max(1, capacity.threads);
}

// A throttled handler reports that it does not use all of its cores.
bool IsThrottled(const Capacity& capacity) {
  return !capacity.own_memory && BusyCores(capacity) < kMinBusy * capacity.threads;
}

// Handlers that measure their speed at the same time share their machine's cores. So among handlers
// of one kind, the highest measurement is right, within the factor that sharing can explain.
void TakeBestSpeeds(const std::map<std::string, Capacity>& handlers, HandlerNetwork* network) {
  std::map<std::pair<std::size_t, std::string>, double> best;
  std::size_t i = 0;
  for (const auto& [id, capacity] : handlers) {
    const std::size_t machine = network->hosts[network->handlers[i++].host].machine;
    double& gflops = best[{machine, capacity.device}];
    gflops = std::max(gflops, capacity.gflops);
  }
  i = 0;
  for (const auto& [id, capacity] : handlers) {
    PlacedHandler& handler = network->handlers[i++];
    const std::size_t machine = network->hosts[handler.host].machine;
    if (network->machines[machine].cores == 0 || IsThrottled(capacity)) continue;
    handler.gflops = std::min(best[{machine, capacity.device}], handler.gflops * kMaxShared);
  }
}

// What handlers report of their speeds now. Where handlers need more than the cores of their
// machine they slow each other down, which the network already counts.
void TakePresentSpeeds(const std::map<std::string, Capacity>& handlers, HandlerNetwork* network) {
  std::vector<double> busy(network->machines.size(), 0);
  const auto machine_of = [&](const PlacedHandler& handler) {
    return network->hosts[handler.host].machine;
  };
  for (const PlacedHandler& handler : network->handlers) {
    busy[machine_of(handler)] += handler.busy_cores;
  }
  std::size_t i = 0;
  for (const auto& [id, capacity] : handlers) {
    PlacedHandler& handler = network->handlers[i++];
    const int cores = network->machines[machine_of(handler)].cores;
    if (cores > 0 && busy[machine_of(handler)] > cores) continue;
    // A higher speed than the measured one has been reached by this very handler.
    handler.gflops = capacity.speed > 1 ? std::max(handler.gflops, capacity.gflops * capacity.speed)
                                        : handler.gflops * capacity.speed;
  }
}

// A handler's speed, if other handlers of its machine had not disturbed the measurement.
struct KnownSpeed {
  double gflops = 0;
  double busy_cores = 0;
  int threads = 1;
};

struct KnownMachine {
  std::set<int> cpus;
  std::vector<KnownSpeed> handlers;  // the fastest first

  // The handlers for which the processors suffice.
  void Take(std::vector<double>* gflops, int* threads) const {
    double left = static_cast<double>(cpus.size());
    for (const KnownSpeed& handler : handlers) {
      const double share =
          cpus.empty() || handler.busy_cores == 0 ? 1 : std::min(1.0, left / handler.busy_cores);
      if (share < kMinShare) continue;
      left -= share * handler.busy_cores;
      gflops->push_back(share * handler.gflops);
      *threads += static_cast<int>(std::lround(share * handler.threads));
    }
  }
};

// Other activity on the hosts makes a measured link seem slower, but different kinds of links
// differ by more than that. Links that only seem unequal would lead to unequal plans.
void TakeBestOfEachKind(std::vector<HostLink>* hosts) {
  std::vector<HostLink*> links;
  for (HostLink& link : *hosts) {
    const bool is_measured = link.us_per_kib > 0 && link.us_per_kib != kAssumedUsPerKib;
    if (is_measured) links.push_back(&link);
  }
  std::ranges::sort(links, {}, [](const HostLink* link) { return link->us_per_kib; });
  double fastest = 0;
  for (HostLink* link : links) {
    if (link->us_per_kib >= kOtherKind * fastest) fastest = link->us_per_kib;
    link->us_per_kib = fastest;
  }
}

// The manager's link is unknown, and assumed to be like the median of the others.
HostLink LinkOfManager(const HandlerNetwork& network) {
  std::vector<HostLink> links = network.hosts;
  const auto middle = links.begin() + static_cast<std::ptrdiff_t>(links.size() / 2);
  std::nth_element(links.begin(), middle, links.end(), [](const HostLink& a, const HostLink& b) {
    return a.us_per_kib < b.us_per_kib;
  });
  return *middle;
}

}  // namespace

std::uint64_t LeastKeptOverLinks(std::uint64_t least_kept_tile_bytes) {
  if (least_kept_tile_bytes == UINT64_MAX) return UINT64_MAX;
  return std::min(least_kept_tile_bytes, tuplespace::kMinKeptBytes);
}

std::map<std::string, Capacity> HandlersToPlace(const std::map<std::string, Capacity>& handlers,
                                                std::uint64_t largest_need_bytes) {
  if (handlers.size() <= kMaxPlacedHandlers) return handlers;
  std::vector<std::map<std::string, Capacity>::const_iterator> best;
  for (auto at = handlers.begin(); at != handlers.end(); ++at) best.push_back(at);
  std::ranges::stable_sort(best, std::greater<>(), [&](const auto& at) {
    const auto& [id, capacity] = *at;
    return std::tuple{capacity.memory_bytes >= largest_need_bytes, capacity.gflops * capacity.speed,
                      capacity.memory_bytes};
  });
  best.resize(kMaxPlacedHandlers);
  std::map<std::string, Capacity> placed;
  for (const auto& at : best) placed.insert(*at);
  return placed;
}

std::optional<HandlerNetwork> NetworkOf(const std::map<std::string, Capacity>& all,
                                        std::uint64_t least_kept_tile_bytes,
                                        const std::string& manager_machine,
                                        std::size_t least_hosts) {
  const std::map<std::string, Capacity> handlers = HandlersToPlace(all);
  HandlerNetwork network;
  Hosts hosts;
  Machines machines;
  for (const auto& [id, capacity] : handlers) {
    const std::size_t host = hosts.NumberOf(id, capacity);
    HostLink link;
    if (capacity.bytes_travel) {
      link.us_per_kib = KnownOr(capacity.link_ns_per_kib, 1e-3, kAssumedUsPerKib);
      link.round_trip_us = KnownOr(capacity.link_round_trip_us, 1, kAssumedRoundTripUs);
    }
    if (host == network.hosts.size()) {
      link.machine = machines.NumberOf(host, capacity);
      network.hosts.push_back(link);
    } else {  // it seemed slower if measured together with others
      HostLink& known = network.hosts[host];
      known.us_per_kib = std::min(known.us_per_kib, link.us_per_kib);
      known.round_trip_us = std::min(known.round_trip_us, link.round_trip_us);
    }
    machines.Add(network.hosts[host].machine, capacity);
    network.handlers.push_back({.host = host,
                                .threads = ThreadsOf(capacity),
                                .gflops = capacity.gflops,
                                .memory_bytes = capacity.memory_bytes,
                                .busy_cores = BusyCores(capacity)});
  }
  if (network.hosts.size() < least_hosts) return std::nullopt;
  TakeBestOfEachKind(&network.hosts);
  network.machines = machines.List(manager_machine);
  TakeBestSpeeds(handlers, &network);
  TakePresentSpeeds(handlers, &network);
  network.manager = LinkOfManager(network);
  network.least_kept_tile_bytes = least_kept_tile_bytes;
  network.least_kept_bytes = LeastKeptOverLinks(least_kept_tile_bytes);
  network.least_served_bytes = tuplespace::kMinKeptBytes;
  network.least_held_bytes = kMinHeldBytes;
  return network;
}

std::optional<PlacedStep> PlaceStep(const std::map<std::string, Capacity>& handlers,
                                    const std::vector<PlannedTask>& step,
                                    std::uint64_t least_kept_tile_bytes,
                                    const std::string& manager_machine, std::size_t least_hosts) {
  std::uint64_t largest_need_bytes = 0;
  for (const PlannedTask& task : step) {
    largest_need_bytes = std::max(largest_need_bytes, NeedBytes(task.task));
  }
  const std::map<std::string, Capacity> placed = HandlersToPlace(handlers, largest_need_bytes);
  auto network = NetworkOf(placed, least_kept_tile_bytes, manager_machine, least_hosts);
  if (!network) return std::nullopt;
  PlacedStep result{{}, std::move(*network), {}};
  for (const auto& [id, capacity] : placed) result.ids.push_back(id);
  result.placement = PlaceOnBestPart(result.network, step);
  return result;
}

std::size_t MaxHandlersToPlace(std::size_t tasks) {
  return std::min(kMaxPlacedHandlers, kMaxOffers / std::max<std::size_t>(1, tasks));
}

std::string WhyNotPlaced(std::size_t tasks, std::size_t handlers) {
  const std::size_t most = MaxHandlersToPlace(tasks);
  if (most == 0) return fmt::format("a step has more than {} tasks", kMaxOffers);
  const std::string memory = "too little memory to keep the weights besides their tasks";
  if (most >= handlers) return "the handlers have " + memory;
  return fmt::format(
      "{} handlers have {}, and placing {} tasks on more handlers would take too long", most,
      memory, tasks);
}

namespace {

// As measured, by client id. As in TakeBestSpeeds, for machines that are known.
std::map<std::string, double> MeasuredSpeeds(const std::map<std::string, Capacity>& handlers) {
  std::map<std::pair<std::string, std::string>, double> best;  // by machine and device
  for (const auto& [id, capacity] : handlers) {
    double& gflops = best[{capacity.machine, capacity.device}];
    gflops = std::max(gflops, capacity.gflops);
  }
  std::map<std::string, double> speeds;
  for (const auto& [id, capacity] : handlers) {
    double& gflops = speeds[id] = capacity.gflops;
    if (capacity.machine.empty() || IsThrottled(capacity)) continue;
    gflops = std::min(best[{capacity.machine, capacity.device}], gflops * kMaxShared);
  }
  return speeds;
}

}  // namespace

std::map<std::string, double> PresentSpeeds(const std::map<std::string, Capacity>& handlers) {
  std::map<std::string, double> speeds = MeasuredSpeeds(handlers);
  for (auto& [id, gflops] : speeds) gflops *= std::min(1.0, handlers.at(id).speed);
  return speeds;
}

WorkerSpeed SpeedOf(const std::map<std::string, Capacity>& handlers) {
  const std::map<std::string, double> speeds = MeasuredSpeeds(handlers);
  std::map<std::string, KnownMachine> machines;
  for (const auto& [id, capacity] : handlers) {
    KnownMachine& machine = machines[capacity.machine.empty() ? " of " + id : capacity.machine];
    if (!capacity.machine.empty()) machine.cpus.insert(capacity.cpus.begin(), capacity.cpus.end());
    machine.handlers.push_back({speeds.at(id), BusyCores(capacity), ThreadsOf(capacity)});
  }
  std::vector<double> gflops;
  int threads = 0;
  for (auto& [name, machine] : machines) {
    std::ranges::stable_sort(machine.handlers, std::greater<>(), &KnownSpeed::gflops);
    machine.Take(&gflops, &threads);
  }
  return SpeedOf(std::move(gflops), threads);
}

}  // namespace acan
