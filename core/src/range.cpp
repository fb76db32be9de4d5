#include "acan/core/range.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace acan {

std::int64_t LeafCount(const Range& range, std::int64_t block) {
  assert(block > 0 && range.begin % block == 0);
  return (range.size() + block - 1) / block;
}

std::pair<Range, Range> Halve(const Range& range, std::int64_t block) {
  const auto leaves = static_cast<std::uint64_t>(LeafCount(range, block));
  assert(leaves > 1);
  const auto left_leaves = static_cast<std::int64_t>(std::bit_ceil(leaves) / 2);
  const std::int64_t middle = range.begin + left_leaves * block;
  assert(middle < range.end);
  return {{range.begin, middle}, {middle, range.end}};
}

std::vector<Range> NodesOfLevel(std::int64_t axis_size, std::int64_t block, int level) {
  assert(axis_size > 0 && level >= 0 && level < 48);
  const std::int64_t span = block << level;
  std::vector<Range> nodes;
  for (std::int64_t begin = 0; begin < axis_size; begin += span) {
    nodes.push_back({begin, std::min(begin + span, axis_size)});
  }
  return nodes;
}

int RootLevel(std::int64_t axis_size, std::int64_t block) {
  const auto leaves = static_cast<std::uint64_t>(LeafCount({0, axis_size}, block));
  return std::bit_width(std::bit_ceil(leaves)) - 1;
}

namespace {
bool IsPowerOfTwo(std::int64_t n) {
  return n > 0 && std::has_single_bit(static_cast<std::uint64_t>(n));
}
}  // namespace

std::vector<Combine> CombineOrder(const std::vector<Range>& ranges, std::int64_t block) {
  assert(!ranges.empty());
  // Each entry is a finished node: its range and the index of its sum. Two neighbours are siblings
  // if halving their union returns them.
  std::vector<std::pair<Range, std::size_t>> nodes;
  std::vector<Combine> order;
  const std::int64_t end = ranges.back().end;
  const auto siblings = [&](const Range& left, const Range& right) {
    const Range both{left.begin, right.end};
    // A range that begins where a left child's sibling does, and is longer, is that sibling and the
    // missing leaves behind it.
    if (right.size() > left.size() && left.size() % block == 0 &&
        IsPowerOfTwo(left.size() / block) &&
        (left.begin - ranges.front().begin) % (2 * left.size()) == 0) {
      return true;
    }
    const auto leaves = static_cast<std::uint64_t>(LeafCount(both, block));
    const auto span = static_cast<std::int64_t>(std::bit_ceil(leaves)) * block;
    return (both.begin - ranges.front().begin) % span == 0 && both.end == end
               ? Halve(both, block).first == left
               : both.size() == span && (both.begin - ranges.front().begin) % span == 0 &&
                     Halve(both, block).first == left;
  };
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    assert(i == 0 || ranges[i].begin == ranges[i - 1].end);
    nodes.emplace_back(ranges[i], i);
    while (nodes.size() > 1 && siblings(nodes[nodes.size() - 2].first, nodes.back().first)) {
      const auto [right_range, right] = nodes.back();
      nodes.pop_back();
      order.push_back({nodes.back().second, right});
      nodes.back().first.end = right_range.end;
    }
  }
  assert(nodes.size() == 1 && nodes.front().second == 0);
  return order;
}

}  // namespace acan
