#include "broker_statistics.h"

namespace tuplespace {

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
