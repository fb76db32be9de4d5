#include "silent_connections.h"

namespace tuplespace {

void SilentConnections::Add(int descriptor, const std::string& address, const std::string& network,
                            std::int64_t now_us) {
  Remove(descriptor);
  const std::uint64_t number = ++last_number_;
  all_.emplace(descriptor, Silent{address, network, number, now_us});
  by_age_.emplace(number, descriptor);
  of_address_[address].emplace(number, descriptor);
  ByAge& beside = of_network_[network];
  networks_.erase(std::pair(beside.size(), network));
  beside.emplace(number, descriptor);
  networks_.emplace(beside.size(), network);
}

void SilentConnections::Remove(int descriptor) {
  const auto at = all_.find(descriptor);
  if (at == all_.end()) return;
  const Silent& silent = at->second;
  by_age_.erase(silent.number);
  const auto of_address = of_address_.find(silent.address);
  of_address->second.erase(silent.number);
  if (of_address->second.empty()) of_address_.erase(of_address);
  const auto of_network = of_network_.find(silent.network);
  ByAge& beside = of_network->second;
  networks_.erase(std::pair(beside.size(), silent.network));
  beside.erase(silent.number);
  if (beside.empty()) {
    of_network_.erase(of_network);
  } else {
    networks_.emplace(beside.size(), silent.network);
  }
  all_.erase(at);
}

std::optional<int> SilentConnections::ToEndOfAddress(int newcomer, std::int64_t now_us) const {
  const int oldest = of_address_.at(all_.at(newcomer).address).begin()->second;
  if (IsYoung(oldest, now_us)) return std::nullopt;
  return oldest;
}

std::optional<int> SilentConnections::ToEnd(int newcomer, std::int64_t now_us) const {
  const ByAge& most = of_network_.at(networks_.rbegin()->second);
  const int oldest_of_most = most.begin()->second;
  if (!IsYoung(oldest_of_most, now_us)) return oldest_of_most;
  const int oldest = by_age_.begin()->second;
  if (!IsYoung(oldest, now_us)) return oldest;
  const ByAge& beside = of_network_.at(all_.at(newcomer).network);
  if (2 * beside.size() < most.size()) return oldest_of_most;
  return std::nullopt;
}

bool SilentConnections::IsYoung(int descriptor, std::int64_t now_us) const {
  return now_us - all_.at(descriptor).since_us < kYoungUs;
}

}  // namespace tuplespace
