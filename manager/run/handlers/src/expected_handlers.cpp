#include "acan/manager/expected_handlers.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "acan/core/text/size_text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace acan {

std::vector<ExpectedHandler> MissingHandlers(std::vector<ExpectedHandler> coming,
                                             const std::vector<ExpectedHandler>& started,
                                             const std::map<std::string, Capacity>& present) {
  std::sort(coming.begin(), coming.end(),
            [](const auto& a, const auto& b) { return a.limit_bytes < b.limit_bytes; });
  std::set<std::string> devices;
  for (const ExpectedHandler& each : started) devices.insert(each.device);
  std::vector<const Capacity*> others;
  for (const auto& [id, capacity] : present) {
    const ExpectedHandler seen{capacity.device, capacity.limit_bytes};
    const auto at = std::find(coming.begin(), coming.end(), seen);
    if (at != coming.end()) {
      coming.erase(at);
    } else if (std::find(started.begin(), started.end(), seen) == started.end()) {
      others.push_back(&capacity);
    }
    // Otherwise it is an earlier life of one that has its place already, or of one that will not
    // come back: the broker lists a handler that was killed until it gives up its session.
  }
  // A device may have less memory left than its handler was given, and its driver may call it
  // otherwise.
  for (const Capacity* capacity : others) {
    const auto at = std::find_if(coming.begin(), coming.end(), [&](const auto& each) {
      const bool may_be = each.device == capacity->device || !devices.contains(capacity->device);
      return may_be && each.limit_bytes >= capacity->limit_bytes;
    });
    if (at != coming.end()) coming.erase(at);
  }
  std::reverse(coming.begin(), coming.end());
  return coming;
}

std::string HandlersText(const std::vector<ExpectedHandler>& handlers) {
  constexpr std::size_t kMostNamed = 3;
  std::vector<std::string> named;
  for (std::size_t i = 0; i < std::min(kMostNamed, handlers.size()); ++i) {
    named.push_back(
        fmt::format("{} with {}", handlers[i].device, SizeText(handlers[i].limit_bytes)));
  }
  const std::size_t more = handlers.size() - named.size();
  return fmt::format("{}{}", fmt::join(named, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

}  // namespace acan
