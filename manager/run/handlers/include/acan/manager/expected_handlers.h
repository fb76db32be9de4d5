// ExpectedHandler: a handler of a run that has only the handlers that were started for it, and that
// are restarted when they die. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "acan/core/names.h"

namespace acan {

struct ExpectedHandler {
  std::string device;             // as Capacity::device
  std::uint64_t limit_bytes = 0;  // Capacity::limit_bytes is less if its device has less left
  friend bool operator==(const ExpectedHandler&, const ExpectedHandler&) = default;
};

// Those of `coming` that are not among the handlers `present` (by client id), the largest first.
// `started` has all handlers that were ever started for the run, so also those that will not come
// back. REQUIRES: `started` includes `coming`.
std::vector<ExpectedHandler> MissingHandlers(std::vector<ExpectedHandler> coming,
                                             const std::vector<ExpectedHandler>& started,
                                             const std::map<std::string, Capacity>& present);

// "cpu:2 with 1GiB, cpu:1 with 64MiB": the first ones, and how many more there are.
std::string HandlersText(const std::vector<ExpectedHandler>& handlers);

}  // namespace acan
