#include "broker_statistics.h"

namespace tuplespace {

void BrokerStatistics::AddTo(Counters* counters) const {
  counters->bad_requests += bad_messages_;
  counters->refused_requests = refused_requests_;
  counters->refused_connections = refused_connections_;
  counters->failed_connections = failed_connections_;
  counters->messages = messages_;
  counters->requests = requests_;
}

}  // namespace tuplespace
