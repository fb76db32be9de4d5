// Cuts: along which axis each layer's weights are halved. Tiles of so many outputs or of so many
// inputs are as large, but move different bytes: a layer that is cut by inputs has partial sums to
// add in its forward pass, one that is cut by outputs in its backward pass, and two layers that
// meet in different pieces copy them together. So one layer is cut by outputs and the next one by
// inputs where the pieces that the first makes can be what the second reads, as they are.
#pragma once

#include <cstdint>
#include <vector>

#include "acan/manager/plan.h"

namespace acan {

// Levels (range.h) of the boxes of one layer.
struct Levels {
  int outputs = 0;
  int inputs = 0;
  int batch = 0;
};

// What the cut of one layer must be.
struct CutLimits {
  int halvings = 0;                    // of the whole layer's weights
  std::int64_t most_span = INT64_MAX;  // most outputs + inputs of a tile
  int batch_level = 0;
};

class Cuts {
 public:
  // `request` must outlive it.
  explicit Cuts(const PlanRequest& request) : request_(request) {}

  // The levels of each layer with which a step takes the least time, as estimated by `LayerUs` and
  // `BoundaryUs`. REQUIRES: each layer has a cut within its limits.
  std::vector<Levels> Choose(const std::vector<CutLimits>& limits) const;
  bool Possible(int layer, const CutLimits& limits) const;

  std::int64_t OutputSpan(int layer, const Levels& levels) const;
  std::int64_t InputSpan(int layer, const Levels& levels) const;
  std::int64_t OutputParts(int layer, const Levels& levels) const;
  std::int64_t InputParts(int layer, const Levels& levels) const;

 private:
  std::vector<Levels> Options(int layer, const CutLimits& limits) const;
  double StageUs(double tasks, double all_us, double largest_us) const;
  double LayerUs(int layer, const Levels& levels) const;
  double BoundaryUs(int layer, const Levels& below, const Levels& above) const;

  const PlanRequest& request_;
};

// Of one worker, and of a task beside its computing; assumed until they are known.
double GflopsOf(const PlanRequest& request);
double OverheadUsOf(const PlanRequest& request);

}  // namespace acan
