#include "acan/manager/handler_network.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace acan {
namespace {

constexpr std::size_t kMostHandlers = 64;
// Until they are measured: 1 Gbit/s, and a switch.
constexpr double kAssumedUsPerKib = 8;
constexpr double kAssumedRoundTripUs = 200;
constexpr double kMostShared = 8;

double KnownOr(std::uint32_t measured, double scale, double assumed) {
  return measured > 0 ? measured * scale : assumed;
}

// The numbers of hosts, in the order in which they are asked for.
class Hosts {
 public:
  // Who shares the broker's memory is on its host. Of others those with one address are on one
  // host; one that does not know its address is on a host of its own.
  std::size_t NumberOf(const std::string& id, const Capacity& capacity) {
    std::string name;
    if (capacity.bytes_travel) name = capacity.host.empty() ? "id " + id : "at " + capacity.host;
    return numbers_.try_emplace(std::move(name), numbers_.size()).first->second;
  }
  std::size_t size() const { return numbers_.size(); }

 private:
  std::map<std::string, std::size_t> numbers_;
};

// Handlers that measure their speed at the same time share their host's cores meanwhile: of those
// of one kind on one host the one that measured most is right. A difference of more than that is
// real, as with a handler that is throttled.
void TakeBestSpeeds(const std::map<std::string, Capacity>& handlers, HandlerNetwork* network) {
  std::map<std::pair<std::size_t, std::string>, double> best;
  std::size_t i = 0;
  for (const auto& [id, capacity] : handlers) {
    double& gflops = best[{network->handlers[i++].host, capacity.device}];
    gflops = std::max(gflops, capacity.gflops);
  }
  i = 0;
  for (const auto& [id, capacity] : handlers) {
    PlacedHandler& handler = network->handlers[i++];
    if (network->hosts[handler.host].cores == 0) continue;
    handler.gflops = std::min(best[{handler.host, capacity.device}], handler.gflops * kMostShared);
  }
}

// Where the manager is, is not known: its link is as most of the others are.
HostLink LinkOfManager(const HandlerNetwork& network) {
  std::vector<HostLink> links = network.hosts;
  const auto middle = links.begin() + static_cast<std::ptrdiff_t>(links.size() / 2);
  std::nth_element(links.begin(), middle, links.end(), [](const HostLink& a, const HostLink& b) {
    return a.us_per_kib < b.us_per_kib;
  });
  return *middle;
}

}  // namespace

std::optional<HandlerNetwork> NetworkOf(const std::map<std::string, Capacity>& handlers,
                                        std::uint64_t least_kept_bytes) {
  if (handlers.size() < 2 || handlers.size() > kMostHandlers) return std::nullopt;
  HandlerNetwork network;
  Hosts hosts;
  for (const auto& [id, capacity] : handlers) {
    const std::size_t host = hosts.NumberOf(id, capacity);
    HostLink link;
    link.cores = capacity.host_threads;
    if (capacity.bytes_travel) {
      link.us_per_kib = KnownOr(capacity.link_ns_per_kib, 1e-3, kAssumedUsPerKib);
      link.round_trip_us = KnownOr(capacity.link_round_trip_us, 1, kAssumedRoundTripUs);
    }
    if (host == network.hosts.size()) {
      network.hosts.push_back(link);
    } else {  // measured beside others, it seemed slower
      HostLink& known = network.hosts[host];
      known.us_per_kib = std::min(known.us_per_kib, link.us_per_kib);
      known.round_trip_us = std::min(known.round_trip_us, link.round_trip_us);
      known.cores = std::max(known.cores, link.cores);
    }
    network.handlers.push_back(
        {host, std::max(1, capacity.threads), capacity.gflops, capacity.memory_bytes});
  }
  if (network.hosts.size() < 2) return std::nullopt;
  TakeBestSpeeds(handlers, &network);
  network.manager = LinkOfManager(network);
  network.least_kept_bytes = least_kept_bytes;
  return network;
}

}  // namespace acan
