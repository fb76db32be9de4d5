// Ranges of an axis and the canonical reduction tree over them.
//
// Every axis (batch, inputs, outputs) of n elements is cut into leaves of `block` elements. Leaves
// are combined by an aligned binary tree: node t of level h is node 2t + node 2t+1 of level h-1; a
// missing right child passes the left one through. A task's range along an axis is always a node of
// that tree, so its sum is a sub-tree of the one canonical sum, whatever the cut.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace acan {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // exclusive

  std::int64_t size() const { return end - begin; }
  bool Contains(const Range& other) const { return begin <= other.begin && other.end <= end; }
  bool Overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
  friend bool operator==(const Range&, const Range&) = default;
  friend auto operator<=>(const Range&, const Range&) = default;
};

// Leaves in a range that starts at a leaf. REQUIRES: block > 0.
std::int64_t LeafCount(const Range& range, std::int64_t block);

// The two children of a node. REQUIRES: LeafCount(range, block) > 1.
std::pair<Range, Range> Halve(const Range& range, std::int64_t block);

// All nodes of level `level` (spanning block << level elements; the last may be shorter) over
// [0, axis_size), ascending.
std::vector<Range> NodesOfLevel(std::int64_t axis_size, std::int64_t block, int level);

// The lowest level at which one node spans [0, axis_size).
int RootLevel(std::int64_t axis_size, std::int64_t block);

// One addition of the tree: the partial of ranges[left] becomes the sum of itself and
// ranges[right].
struct Combine {
  std::size_t left = 0;
  std::size_t right = 0;
  friend bool operator==(const Combine&, const Combine&) = default;
};

// The additions, in order, that reduce the partial sums of `ranges` to that of their union, which
// ends in ranges[0]. REQUIRES: `ranges` are ascending nodes that together are exactly one node. A
// node may include missing leaves behind it: of six leaves in a place for eight, the last may be
// {5, 8}.
std::vector<Combine> CombineOrder(const std::vector<Range>& ranges, std::int64_t block);

}  // namespace acan
