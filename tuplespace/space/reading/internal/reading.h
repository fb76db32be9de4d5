// Reading: the parts that answer who only looks: Reads, lists and counts, and where results stay.
#pragma once

#include "reads.h"
#include "residency.h"
#include "scans.h"
#include "space_state.h"

namespace tuplespace::internal {

struct Reading {
  explicit Reading(SpaceState& state) : residency(state), reads(state, residency), scans(state) {}

  // Each uses those before it.
  Residency residency;
  Reads reads;
  Scans scans;
};

}  // namespace tuplespace::internal
