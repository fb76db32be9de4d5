#include "acan/handler/step_actions.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace acan {

using tuplespace::Key;

namespace {
// The broker refuses a handler's request that names more tuples (access_roles.cpp).
constexpr std::size_t kMostOfHold = 4096;

// Removes and returns the first of them, at most `most`.
std::vector<Key> TakeSome(std::vector<Key>& keys, std::size_t most) {
  if (keys.size() <= most) return std::exchange(keys, {});
  const auto end = keys.begin() + static_cast<std::ptrdiff_t>(most);
  std::vector<Key> some(keys.begin(), end);
  keys.erase(keys.begin(), end);
  return some;
}
}  // namespace

// All that is dropped comes before all that is held, as in a single request.
std::vector<HandlerAction> StepActions::Take() {
  while (!held_.empty() || !dropped_.empty()) {
    AnnounceHeld next;
    next.dropped = TakeSome(dropped_, kMostOfHold);
    next.held = TakeSome(held_, kMostOfHold - next.dropped.size());
    Add(std::move(next));
  }
  return std::exchange(actions_, {});
}

}  // namespace acan
