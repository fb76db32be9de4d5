// SilentConnections: the connections of a listener over which no message has come yet. It decides
// which of them makes room for a new one when a limit on connections is reached. So whoever only
// opens connections keeps nobody else out.
//
// At a limit the oldest silent connection ends:
// - of the same address, if the limit is that of an address;
// - otherwise of the network that has most of them, or of all if those are young.
// A young connection may be in the middle of an honest handshake, as those of many clients behind
// one address are when their broker has started again. It ends only for a network that has less
// than half as many silent connections. If nothing may end, the new one is refused.
//
// Pure; not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

namespace tuplespace {

class SilentConnections {
 public:
  // A handshake and a first message take less, even over a slow link to a busy broker.
  static constexpr std::int64_t kYoungUs = 3'000'000;

  // It was accepted now. `network`: addresses that one host may have.
  void Add(int descriptor, const std::string& address, const std::string& network,
           std::int64_t now_us);
  void Remove(int descriptor);  // does nothing if it is not one of them

  // The connection that ends for `newcomer`, because its address has too many, or because there are
  // too many in all; nullopt: none. REQUIRES: `newcomer` was added, as the last one.
  std::optional<int> ToEndOfAddress(int newcomer, std::int64_t now_us) const;
  std::optional<int> ToEnd(int newcomer, std::int64_t now_us) const;

 private:
  struct Silent {
    std::string address, network;
    std::uint64_t number = 0;
    std::int64_t since_us = 0;
  };
  using ByAge = std::map<std::uint64_t, int>;  // descriptors by number, so the oldest is first

  bool IsYoung(int descriptor, std::int64_t now_us) const;

  std::unordered_map<int, Silent> all_;  // by descriptor
  ByAge by_age_;
  std::unordered_map<std::string, ByAge> of_address_;
  std::unordered_map<std::string, ByAge> of_network_;
  std::set<std::pair<std::size_t, std::string>> networks_;  // by the number of their connections
  std::uint64_t last_number_ = 0;
};

}  // namespace tuplespace
