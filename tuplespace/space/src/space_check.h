// What must always hold between two events, for tests.
#pragma once

#include <optional>
#include <string>

#include "benches.h"
#include "get_groups.h"
#include "space_state.h"

namespace tuplespace::internal {

// What contradicts what, or nullopt. Walks over everything.
std::optional<std::string> FindContradiction(const SpaceState& state, const GetGroups& groups,
                                             const Benches& benches);

}  // namespace tuplespace::internal
