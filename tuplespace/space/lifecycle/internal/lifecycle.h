// Lifecycle: the parts that let tuples enter, end leases, complete tasks and remove tuples.
#pragma once

#include "completions.h"
#include "lease_ends.h"
#include "matching.h"
#include "put_checks.h"
#include "puts.h"
#include "reading.h"
#include "removal.h"
#include "space_state.h"
#include "watermarks.h"

namespace tuplespace::internal {

struct Lifecycle {
  Lifecycle(SpaceState& state, Reading& reading, Matching& matching)
      : watermarks(state),
        removal(state, matching.groups, matching.leases, matching.holders, reading.residency,
                watermarks),
        checks(state, watermarks),
        puts(state, matching.leases, checks, reading.reads, matching.ready, matching.holders,
             reading.residency, watermarks, removal),
        lease_ends(state, matching.leases, matching.ready, matching.benches, matching.trust,
                   removal),
        completions(state, matching.leases, matching.trust, removal, checks, puts, lease_ends) {}

  // Each part uses the parts before it.
  Watermarks watermarks;
  Removal removal;
  PutChecks checks;
  Puts puts;
  LeaseEnds lease_ends;
  Completions completions;
};

}  // namespace tuplespace::internal
