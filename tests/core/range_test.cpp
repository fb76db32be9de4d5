// Ranges, compared with a recursive definition of the canonical tree.
#include "acan/core/range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "acan/core/philox.h"

namespace acan {
namespace {

// The tree by its definition: level h of `leaves` leaves combines pairs of level h - 1.
std::vector<std::vector<Range>> TreeOf(std::int64_t size, std::int64_t block) {
  std::vector<Range> level;
  for (std::int64_t begin = 0; begin < size; begin += block) {
    level.push_back({begin, std::min(begin + block, size)});
  }
  std::vector<std::vector<Range>> tree{level};
  while (tree.back().size() > 1) {
    std::vector<Range> next;
    const std::vector<Range>& below = tree.back();
    for (std::size_t i = 0; i < below.size(); i += 2) {
      next.push_back({below[i].begin, below[std::min(i + 1, below.size() - 1)].end});
    }
    tree.push_back(next);
  }
  return tree;
}

constexpr std::int64_t kBlocks[] = {16, 64};

std::vector<std::int64_t> SizesFor(std::int64_t block) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t leaves = 1; leaves <= 18; ++leaves) {
    for (const std::int64_t last : {std::int64_t{1}, block / 2, block}) {
      sizes.push_back((leaves - 1) * block + last);
    }
  }
  return sizes;
}

TEST(Range, NodesOfLevelAndRootLevelAreTheTree) {
  for (const std::int64_t block : kBlocks) {
    for (const std::int64_t size : SizesFor(block)) {
      const auto tree = TreeOf(size, block);
      EXPECT_EQ(RootLevel(size, block), static_cast<int>(tree.size()) - 1) << size;
      for (std::size_t level = 0; level < tree.size(); ++level) {
        EXPECT_EQ(NodesOfLevel(size, block, static_cast<int>(level)), tree[level]) << size;
      }
      EXPECT_EQ(NodesOfLevel(size, block, static_cast<int>(tree.size()) + 3), tree.back());
    }
  }
}

TEST(Range, HalveGivesTheTwoChildren) {
  for (const std::int64_t block : kBlocks) {
    for (const std::int64_t size : SizesFor(block)) {
      const auto tree = TreeOf(size, block);
      for (std::size_t level = 1; level < tree.size(); ++level) {
        for (std::size_t t = 0; t < tree[level].size(); ++t) {
          const Range& node = tree[level][t];
          if (2 * t + 1 >= tree[level - 1].size()) continue;  // equals its only child
          const auto [left, right] = Halve(node, block);
          EXPECT_EQ(left, tree[level - 1][2 * t]);
          EXPECT_EQ(right, tree[level - 1][2 * t + 1]);
        }
      }
    }
  }
}

// The sum as text with parentheses: equal texts mean equal order.
std::string SumOf(const Range& range, std::int64_t block, const std::vector<Range>& parts) {
  if (std::find(parts.begin(), parts.end(), range) != parts.end()) {
    return "s" + std::to_string(range.begin);
  }
  const auto [left, right] = Halve(range, block);
  return "(" + SumOf(left, block, parts) + "+" + SumOf(right, block, parts) + ")";
}

std::string Combined(const std::vector<Range>& parts, std::int64_t block) {
  std::vector<std::string> partials;
  for (const Range& part : parts) partials.push_back("s" + std::to_string(part.begin));
  for (const Combine& combine : CombineOrder(parts, block)) {
    EXPECT_LT(combine.left, combine.right);
    EXPECT_FALSE(partials[combine.right].empty()) << "used twice";
    partials[combine.left] = "(" + partials[combine.left] + "+" + partials[combine.right] + ")";
    partials[combine.right].clear();
  }
  for (std::size_t i = 1; i < partials.size(); ++i) EXPECT_EQ(partials[i], "") << "left over";
  return partials[0];
}

// Halves nodes at random and collects the parts.
void Cut(const Range& range, std::int64_t block, std::mt19937& random, std::vector<Range>& out) {
  if (LeafCount(range, block) == 1 || random() % 3 == 0) {
    out.push_back(range);
    return;
  }
  const auto [left, right] = Halve(range, block);
  Cut(left, block, random, out);
  Cut(right, block, random, out);
}

TEST(Range, CombineOrderIsTheTreeWhateverTheCut) {
  std::mt19937 random(1);
  for (const std::int64_t block : kBlocks) {
    for (const std::int64_t size : SizesFor(block)) {
      for (int trial = 0; trial < 20; ++trial) {
        std::vector<Range> parts;
        Cut({0, size}, block, random, parts);
        EXPECT_EQ(Combined(parts, block), SumOf({0, size}, block, parts)) << size;
      }
    }
  }
}

// A range that is longer than its contents: six leaves in a range for eight.
TEST(Range, CombineOrderTakesWhatIsMissingAsPartOfTheLast) {
  std::mt19937 random(3);
  for (const std::int64_t block : kBlocks) {
    for (const std::int64_t size : SizesFor(block)) {
      for (int trial = 0; trial < 20; ++trial) {
        std::vector<Range> parts;
        Cut({0, size}, block, random, parts);
        const std::string expected = SumOf({0, size}, block, parts);
        parts.back().end = block << RootLevel(size, block);
        EXPECT_EQ(Combined(parts, block), expected) << size;
      }
    }
  }
}

// Only the parts of one inner node, which may not begin at 0.
TEST(Range, CombineOrderOfAnInnerNode) {
  std::mt19937 random(2);
  const std::int64_t block = 16;
  for (const std::int64_t size : SizesFor(block)) {
    for (const auto& level : TreeOf(size, block)) {
      for (const Range& node : level) {
        for (int trial = 0; trial < 5; ++trial) {
          std::vector<Range> parts;
          Cut(node, block, random, parts);
          EXPECT_EQ(Combined(parts, block), SumOf(node, block, parts))
              << "[" << node.begin << ", " << node.end << ") of " << size;
        }
      }
    }
  }
}

TEST(Range, ContainsAndOverlaps) {
  const Range a{16, 48};
  EXPECT_TRUE(a.Contains({16, 48}) && a.Contains({20, 30}));
  EXPECT_FALSE(a.Contains({15, 20}) || a.Contains({40, 49}));
  EXPECT_TRUE(a.Overlaps({47, 60}) && a.Overlaps({0, 17}));
  EXPECT_FALSE(a.Overlaps({48, 60}) || a.Overlaps({0, 16}));
}

// The vectors that the generator's authors published for philox4x32 with ten rounds.
TEST(Philox, GivesThePublishedWords) {
  const auto words = [](std::uint64_t key, std::uint64_t low, std::uint64_t high) {
    const acan_philox4 out = acan_philox(key, low, high);
    return std::vector<std::uint32_t>(out.v, out.v + 4);
  };
  using Words = std::vector<std::uint32_t>;
  EXPECT_EQ(words(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(~0ull, ~0ull, ~0ull), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  EXPECT_EQ(acan_unit_float(0), 0.0f);
  EXPECT_LT(acan_unit_float(0xffffffff), 1.0f);
}

}  // namespace
}  // namespace acan
