// The invariants that hold between two events, for tests.
#pragma once

#include <optional>
#include <string>

#include "benches.h"
#include "get_groups.h"
#include "space_state.h"

namespace tuplespace::internal {

// A violated invariant, or nullopt. Visits everything.
std::optional<std::string> FindContradiction(const SpaceState& state, const GetGroups& groups,
                                             const Benches& benches);

}  // namespace tuplespace::internal
