// Reading: the parts that answer requests that change nothing (Reads, Lists and Counts), and the
// places where results stay.
#pragma once

#include "reads.h"
#include "residency.h"
#include "scans.h"
#include "space_state.h"

namespace tuplespace::internal {

struct Reading {
  explicit Reading(SpaceState& state) : residency(state), reads(state, residency), scans(state) {}

  // Each part uses the parts before it.
  Residency residency;
  Reads reads;
  Scans scans;
};

}  // namespace tuplespace::internal
