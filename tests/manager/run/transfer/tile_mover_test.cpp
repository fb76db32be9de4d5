// Which tiles are a whole matrix.
#include "acan/manager/tile_mover.h"

#include <gtest/gtest.h>

namespace acan {
namespace {

TileCell Tile(Range outputs, Range inputs) {
  return {tuplespace::Key{"tile", outputs.begin, inputs.begin}, 0, -1, outputs, inputs};
}

TEST(AreWholeTest, TilesThatMeetAreWhole) {
  EXPECT_TRUE(AreWhole({Tile({0, 100}, {0, 70})}, 100, 70));
  EXPECT_TRUE(AreWhole({Tile({0, 64}, {0, 70}), Tile({64, 100}, {0, 70})}, 100, 70));
}

TEST(AreWholeTest, AHoleIsFound) {
  EXPECT_FALSE(AreWhole({}, 100, 70));
  EXPECT_FALSE(AreWhole({Tile({0, 64}, {0, 70})}, 100, 70));
  EXPECT_FALSE(AreWhole({Tile({64, 100}, {0, 70})}, 100, 70));
  EXPECT_FALSE(AreWhole({Tile({0, 64}, {0, 70}), Tile({64, 100}, {0, 64})}, 100, 70));
}

// Of a cut by outputs and one by inputs.
TEST(AreWholeTest, AnOverlapDoesNotFillAHoleOfItsSize) {
  const TileCell left = Tile({0, 128}, {0, 64}), top = Tile({0, 64}, {0, 128});
  EXPECT_FALSE(AreWhole({left, top}, 128, 128));
  EXPECT_FALSE(AreWhole({left, left}, 128, 128));
  EXPECT_TRUE(AreWhole({left, top, Tile({64, 128}, {0, 128})}, 128, 128));
}

TEST(AreWholeTest, TilesOfAnotherModelAreNot) {
  EXPECT_FALSE(AreWhole({Tile({0, 128}, {0, 128})}, 100, 70));
}

}  // namespace
}  // namespace acan
