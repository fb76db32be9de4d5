// LogQuota: limits how many lines are logged about events that others cause, for each party. Many
// events at once are normal, as when a broker restarts and all clients join.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace tuplespace {

class LogQuota {
 public:
  static constexpr std::int64_t kLines = 256;          // at once
  static constexpr std::int64_t kEveryUs = 1'000'000;  // then one in this time

  // nullopt: no line about `who` may be logged now. Otherwise one may be; the number of lines about
  // `who` that could not be since the last one.
  std::optional<std::uint64_t> Take(const std::string& who, std::int64_t now_us) {
    if (parties_.size() >= kRemembered && !parties_.contains(who)) {
      std::erase_if(parties_, [now_us](const auto& one) { return one.second.free_us <= now_us; });
      if (parties_.size() >= kRemembered) parties_.clear();
    }
    Party& party = parties_[who];
    const std::int64_t begin_us = std::max(party.free_us, now_us);
    if (begin_us > now_us + (kLines - 1) * kEveryUs) {
      ++party.left_out;
      return std::nullopt;
    }
    party.free_us = begin_us + kEveryUs;
    return std::exchange(party.left_out, 0);
  }

 private:
  static constexpr std::size_t kRemembered = 1024;

  struct Party {
    std::int64_t free_us = INT64_MIN;  // from then on it may use all lines again
    std::uint64_t left_out = 0;
  };
  std::unordered_map<std::string, Party> parties_;
};

}  // namespace tuplespace
