#include "broker_statistics.h"

#include <fmt/format.h>

namespace tuplespace {

void BrokerStatistics::LogPresence(const std::string& party, std::string line,
                                   std::int64_t now_us) {
  const auto left_out = presence_.Take(party, now_us);
  if (!left_out) return;
  if (*left_out > 0) {
    line += fmt::format(" ({} lines about clients of \"{}\" that came or left are left out)",
                        *left_out, party);
  }
  Log(std::move(line));
}

void BrokerStatistics::AddTo(Stats* stats) const {
  stats->counters.bad_requests += bad_messages_;
  stats->counters.refused_requests = refused_requests_;
  stats->counters.refused_connections = refused_connections_;
  stats->counters.failed_connections = failed_connections_;
  stats->counters.messages = messages_;
  stats->counters.requests = requests_;
  stats->unix_us = unix_us_;
}

}  // namespace tuplespace
