// Measures the speed of the link between a client and its broker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tuplespace/client.h"

namespace acan::cli {

struct RoundTrips {
  int count = 0;
  double median_us = 0;
  double least_us = 0;
  double most_us = 0;
  // The broker's wall clock minus this host's, by the fastest round trip; unset if the broker does
  // not tell.
  std::optional<double> clock_ahead_s;
};

// Rates of payloads, 10^6 bytes a second.
struct Bandwidth {
  double to_broker_mb_s = 0;
  double from_broker_mb_s = 0;
};

// Both block, for some seconds at most. They throw Error (failure) if the broker stops answering,
// and SpaceError as Client does. REQUIRES: the client has joined.
RoundTrips MeasureRoundTrips(tuplespace::Client& client);
// Puts probes (ProbeKey) and reads them back for about half a second, and removes them. The time of
// a round trip is subtracted. SpaceError(kForbidden): this key may not put (it is an observer's).
Bandwidth MeasureBandwidth(tuplespace::Client& client, double round_trip_us);

}  // namespace acan::cli
