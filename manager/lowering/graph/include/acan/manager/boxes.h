// Boxes: the parts of a batch that tasks cover, and the order in which sums over rows are added.
//
// A value has `positions` rows for each sample. A box is a range of samples, or a range of the
// positions of one sample:
//
//            sample 0            sample 1            sample 2
//         +---------+---------+---------+---------+---------+---------+
//   rows  | 0 .. 63 |64 .. 127| 0 .. 63 |64 .. 127| 0 .. 63 |64 .. 127|    positions = 128
//         +---------+---------+---------+---------+---------+---------+
//         |<----- box {0, 2}, whole samples ----->|         |<- box ->| {2, 3}, positions {64, 128}
//
// Pure values and functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "acan/core/range.h"

namespace acan {

// How samples, and the positions of each, are cut into boxes.
struct RowCut {
  std::int64_t samples = 1;    // per box
  std::int64_t positions = 0;  // per box of one sample: block x a power of two; 0: all
  bool IsWithinSamples() const { return positions > 0; }
  friend bool operator==(const RowCut&, const RowCut&) = default;
};

struct Box {
  Range samples;
  Range positions;  // for values that are cut within samples; empty: all
  bool HasWholeSamples() const { return positions.size() == 0; }
  // The rows of a value with `value_positions` rows per sample.
  Range RowsOf(std::int64_t value_positions) const;
  friend bool operator==(const Box&, const Box&) = default;
};

// The boxes of a batch, ascending. `positions` is that of the values cut within samples.
std::vector<Box> BoxesOf(const RowCut& cut, std::int64_t batch_samples, std::int64_t positions);
// How many they are.
std::int64_t CountBoxes(const RowCut& cut, std::int64_t batch_samples, std::int64_t positions);
// Calls visit(box) for each box of `cut` inside `box`, which belongs to an equal or coarser cut.
// Planning does so for every value that a task reads or makes.
template <typename Visit>
void ForBoxesWithin(const Box& box, const RowCut& cut, std::int64_t positions, const Visit& visit);
// A cut whose boxes lie inside boxes of both.
RowCut FinerOf(const RowCut& a, const RowCut& b);

// The canonical order of sums over the rows of values with `positions` rows per sample: row groups
// of whole samples; inside a group, leaves of `block` rows and the aligned tree; then the tree over
// groups. A group has `group_samples` samples: the largest power of two with group_samples x
// positions <= block, at least 1.
class RowOrder {
 public:
  RowOrder(std::int64_t block, std::int64_t positions);

  std::int64_t group_samples() const { return group_samples_; }
  std::int64_t group_rows() const { return group_samples_ * positions_; }
  // Whether the order is that of consecutive rows in leaves of `block`: no group ends with a short
  // leaf before another group.
  bool IsPlain() const { return group_rows() == padded_rows_; }
  // The place of a box in the tree. If a group is shorter than a power of two of leaves, the
  // missing leaves count, so that CombineOrder(places, block) can add the parts of sums.
  Range PlaceOf(const Box& box) const;
  // Whether each box of this cut consists of nodes of the tree.
  bool Allows(const RowCut& cut) const;
  // The smallest set of nodes of the tree that makes up a box of an allowed cut, ascending. For
  // example, if six samples are cut in the middle, the second box has {3, 4} and {4, 6}. The batch
  // has `batch_samples`; its end may cut nodes short.
  std::vector<Box> NodesOf(const Box& box, std::int64_t batch_samples) const;

 private:
  std::int64_t block_;
  std::int64_t positions_;
  std::int64_t group_samples_ = 1;
  std::int64_t padded_rows_ = 0;  // rows of a padded group: block x a power of two
};

// ---- implementation ----------------------------------------------------------------------------

template <typename Visit>
void ForBoxesWithin(const Box& box, const RowCut& cut, std::int64_t positions, const Visit& visit) {
  const bool within = cut.IsWithinSamples() && cut.positions < positions;
  const std::int64_t samples = cut.IsWithinSamples() ? 1 : cut.samples;
  for (std::int64_t s = box.samples.begin; s < box.samples.end; s += samples) {
    const Range of{s, std::min(s + samples, box.samples.end)};
    if (!within) {
      visit(Box{of, box.positions});
      continue;
    }
    const Range all = box.HasWholeSamples() ? Range{0, positions} : box.positions;
    for (std::int64_t p = all.begin; p < all.end; p += cut.positions) {
      visit(Box{of, {p, std::min(p + cut.positions, all.end)}});
    }
  }
}

}  // namespace acan
