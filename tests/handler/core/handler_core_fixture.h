// Helpers for tests of HandlerCore.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "acan/handler/handler_core.h"

namespace acan {

inline tuplespace::Key Tile(std::int64_t version, std::int64_t number) {
  return tuplespace::Key{"job", version, "tile", number};
}

template <class T>
std::vector<T> Of(const std::vector<HandlerAction>& actions) {
  std::vector<T> found;
  for (const HandlerAction& action : actions) {
    if (const T* a = std::get_if<T>(&action)) found.push_back(*a);
  }
  return found;
}

inline TaskGranted Grant(std::uint64_t need, std::vector<tuplespace::Key> inputs = {},
                         std::uint64_t fence = 1) {
  TaskGranted grant;
  grant.lease = {tuplespace::Key{"job", std::int64_t{0}, "task", static_cast<std::int64_t>(fence)},
                 fence};
  grant.lease_us = 1000;
  grant.need_bytes = grant.gathering_bytes = grant.computing_bytes = need;
  grant.inputs = std::move(inputs);
  grant.sent.assign(grant.inputs.size(), true);
  grant.input_bytes.assign(grant.inputs.size(), 100);
  return grant;
}

// The space has stored the flight's results, and their bytes have left.
inline void Store(HandlerCore& core, FlightId flight, std::int64_t now_us = 0) {
  core.Step(ResultsCount{flight}, now_us);
  core.Step(Released{flight}, now_us);
}

}  // namespace acan
