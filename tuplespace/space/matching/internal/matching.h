// Matching: the parts that decide who gets which ready task, and for how long.
#pragma once

#include <cstdint>

#include "benches.h"
#include "get_groups.h"
#include "gets.h"
#include "holders.h"
#include "lease_table.h"
#include "matcher.h"
#include "ready_queue.h"
#include "residency.h"
#include "space_state.h"
#include "trust.h"

namespace tuplespace::internal {

struct Matching {
  Matching(SpaceState& state, Residency& residency, std::uint64_t first_fence)
      : groups(state),
        ready(state, groups),
        holders(state, ready),
        benches(state, groups),
        trust(state, groups, benches),
        leases(state, trust, first_fence),
        matcher(state, groups, ready, leases, benches, trust, residency, holders),
        gets(state, groups, ready, benches, matcher) {}

  // Each part uses the parts before it.
  GetGroups groups;
  ReadyQueue ready;
  Holders holders;
  Benches benches;
  Trust trust;
  LeaseTable leases;
  Matcher matcher;
  Gets gets;
};

}  // namespace tuplespace::internal
