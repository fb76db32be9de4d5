#include "acan/manager/boxes.h"

#include <gtest/gtest.h>

namespace acan {
namespace {

TEST(BoxesTest, WholeSamplesAndPartsOfOne) {
  const std::vector<Box> whole = BoxesOf({2, 0}, 5, 96);
  ASSERT_EQ(whole.size(), 3u);
  EXPECT_EQ(CountBoxes({2, 0}, 5, 96), 3);
  EXPECT_EQ(whole[1].RowsOf(96), (Range{192, 384}));
  EXPECT_EQ(whole[2].RowsOf(96), (Range{384, 480}));
  EXPECT_EQ(whole[2].RowsOf(1), (Range{4, 5}));

  const std::vector<Box> parts = BoxesOf({1, 64}, 2, 96);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(CountBoxes({1, 64}, 2, 96), 4);
  EXPECT_EQ(CountBoxes({1, 64}, 2, 40), 2);
  EXPECT_EQ(parts[1].RowsOf(96), (Range{64, 96}));
  EXPECT_EQ(parts[2].RowsOf(96), (Range{96, 160}));
}

TEST(BoxesTest, CellsOfAFinerCutLieWithinABox) {
  const Box box{{2, 4}, {}};
  std::vector<Box> cells;
  ForBoxesWithin(box, {1, 64}, 96, [&](const Box& cell) { cells.push_back(cell); });
  ASSERT_EQ(cells.size(), 4u);
  EXPECT_EQ(cells.front().RowsOf(96), (Range{192, 256}));
  EXPECT_EQ(cells.back().RowsOf(96), (Range{352, 384}));
  EXPECT_EQ(FinerOf({4, 0}, {1, 64}), (RowCut{1, 64}));
  EXPECT_EQ(FinerOf({4, 0}, {2, 0}), (RowCut{2, 0}));
  EXPECT_EQ(FinerOf({6, 0}, {4, 0}), (RowCut{2, 0}));
}

// The tree over places must be the tree over leaves within a group, and then over groups.
TEST(BoxesTest, PlacesOfPartsAreNodesOfOneTree) {
  for (const std::int64_t positions : {1, 3, 40, 64, 96, 128, 160, 300, 360, 704}) {
    const RowOrder order(64, positions);
    for (const std::int64_t samples : {1, 2, 3, 7, 64, 100}) {
      for (const RowCut cut : {RowCut{64, 0}, RowCut{128, 0}, RowCut{1, 64}, RowCut{1, 128}}) {
        if (!order.Allows(cut)) continue;
        std::vector<Range> places;
        for (const Box& box : BoxesOf(cut, samples, positions))
          places.push_back(order.PlaceOf(box));
        const std::vector<Combine> combines = CombineOrder(places, 64);
        EXPECT_EQ(combines.size() + 1, places.size()) << positions << " " << samples;
      }
    }
  }
}

// For any number of samples in a box, its parts are the fewest possible nodes of the tree.
TEST(BoxesTest, UnevenBoxesAreMadeOfNodes) {
  const RowOrder order(64, 96);
  const std::vector<Box> halves = BoxesOf({6, 0}, 12, 96);
  ASSERT_EQ(halves.size(), 2u);
  EXPECT_EQ(order.NodesOf(halves[0], 12), (std::vector<Box>{{{0, 4}, {}}, {{4, 6}, {}}}));
  EXPECT_EQ(order.NodesOf(halves[1], 12), (std::vector<Box>{{{6, 8}, {}}, {{8, 12}, {}}}));
  EXPECT_EQ(order.NodesOf({{8, 12}, {}}, 12).size(), 1u);
  for (const std::int64_t positions : {1, 3, 24, 40, 64, 96, 300}) {
    const RowOrder of(64, positions);
    for (const std::int64_t batch : {1, 5, 12, 100, 192}) {
      for (std::int64_t samples = 1; samples <= batch; ++samples) {
        if (!of.Allows({samples, 0})) continue;
        std::vector<Range> places;
        for (const Box& box : BoxesOf({samples, 0}, batch, positions)) {
          for (const Box& node : of.NodesOf(box, batch)) places.push_back(of.PlaceOf(node));
        }
        EXPECT_EQ(CombineOrder(places, 64).size() + 1, places.size()) << samples << " " << batch;
      }
    }
  }
}

TEST(BoxesTest, GroupsAreWholeSamples) {
  EXPECT_EQ(RowOrder(64, 1).group_rows(), 64);
  EXPECT_TRUE(RowOrder(64, 1).IsPlain());
  EXPECT_EQ(RowOrder(64, 24).group_samples(), 2);
  EXPECT_FALSE(RowOrder(64, 24).IsPlain());
  EXPECT_EQ(RowOrder(64, 96).group_samples(), 1);
  EXPECT_FALSE(RowOrder(64, 96).IsPlain());
  EXPECT_TRUE(RowOrder(64, 128).IsPlain());
  EXPECT_FALSE(RowOrder(64, 24).Allows({1, 0}));
  EXPECT_TRUE(RowOrder(64, 96).Allows({1, 64}));
  EXPECT_FALSE(RowOrder(64, 96).Allows({1, 32}));
}

}  // namespace
}  // namespace acan
