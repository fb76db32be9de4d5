// Which tiles form a whole matrix, and the hash of a model in the space.
#include "acan/manager/tile_mover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "acan/manager/model_file.h"
#include "slow_link.h"
#include "space_fixture.h"
#include "test_files.h"

namespace acan {
namespace {

TileCell Tile(Range outputs, Range inputs) {
  return {tuplespace::Key{"tile", outputs.begin, inputs.begin}, {}, outputs, inputs};
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

// Two tiles, of a cut by outputs and of one by inputs.
TEST(AreWholeTest, AnOverlapDoesNotFillAHoleOfItsSize) {
  const TileCell left = Tile({0, 128}, {0, 64}), top = Tile({0, 64}, {0, 128});
  EXPECT_FALSE(AreWhole({left, top}, 128, 128));
  EXPECT_FALSE(AreWhole({left, left}, 128, 128));
  EXPECT_TRUE(AreWhole({left, top, Tile({64, 128}, {0, 128})}, 128, 128));
}

TEST(AreWholeTest, TilesOfAnotherModelAreNot) {
  EXPECT_FALSE(AreWhole({Tile({0, 128}, {0, 128})}, 100, 70));
}

// ---- over a link on which a tile takes about three seconds --------------------------------------

constexpr std::uint64_t kBytesPerSecond = 2'000'000;
constexpr std::int64_t kLargeValues = 1'500'000;
const TileCell kLarge = Tile({0, kLargeValues}, {0, 1});

class LargeValues final : public TileSource {
 public:
  std::vector<float> Read(const TileCell&) override {
    return std::vector<float>(kLargeValues, 0.5F);
  }
};

struct StoppedMover {};

// Stops what moves the tile again and again.
std::function<void()> OnlyOnce(const SlowLink& link) {
  return [&link] {
    if (link.passed() > 2 * sizeof(float) * kLargeValues) throw StoppedMover{};
  };
}

TEST(TileMoverTest, ATileThatArrivesSlowlyIsAskedForOnce) {
  SlowLink link(kBytesPerSecond);
  LargeValues source;
  TileMover(link.near(), [] {}).Load(source, {kLarge});
  const auto found = TileMover(link.far(), OnlyOnce(link)).Fetch(kLarge);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->size(), sizeof(float) * kLargeValues);
}

TEST(TileMoverTest, OnlyTheBrokerSaysThatATileIsGone) {
  SlowLink link(kBytesPerSecond);
  LargeValues source;
  TileMover(link.near(), [] {}).Load(source, {kLarge});
  TileMover mover(link.far(), OnlyOnce(link));
  EXPECT_TRUE(mover.Fetch(kLarge, std::chrono::seconds(1)));
  EXPECT_FALSE(mover.Fetch(Tile({7, 8}, {0, 1}), std::chrono::seconds(1)));
}

// The lead is extended then, and a stop does not wait for the whole tile.
TEST(TileMoverTest, ItChecksWhileATileIsOnItsWay) {
  SlowLink link(kBytesPerSecond);
  LargeValues source;
  TileMover mover(link.far(), [&link] {
    if (link.passed() > kBytesPerSecond / 4) throw StoppedMover{};
  });
  EXPECT_THROW(mover.Load(source, {kLarge}), StoppedMover);
  EXPECT_EQ(link.far().unanswered(), 0u) << "the request is abandoned";
}

class HashedModelTest : public SpaceTest {
 protected:
  void PutTile(std::size_t tensor, MatrixId matrix, Range rows, Range cols) {
    const auto index = static_cast<std::int64_t>(tensor);
    tiles_.push_back(
        {{"tile", index, rows.begin, rows.end, cols.begin, cols.end}, matrix, rows, cols});
    std::vector<float> values;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t col = cols.begin; col < cols.end; ++col) {
        values.push_back(static_cast<float>(100 * index + 10 * row + col));
      }
    }
    tuplespace::Tuple tuple;
    tuple.key = tiles_.back().key;
    tuple.payload = tuplespace::Payload::Copy(values.data(), values.size() * sizeof(float));
    client_->Put({std::move(tuple)});
  }
  // In tiles of at most 2 x 3.
  void PutModel() {
    const std::vector<TensorInfo> tensors = ModelTensors(*model_);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (std::int64_t row = 0; row < tensors[i].rows; row += 2) {
        for (std::int64_t col = 0; col < tensors[i].cols; col += 3) {
          PutTile(i, tensors[i].matrix, {row, std::min(row + 2, tensors[i].rows)},
                  {col, std::min(col + 3, tensors[i].cols)});
        }
      }
    }
  }

  const std::shared_ptr<const TrainedModel> model_ = BuildModel(Perceptron{{5, 4, 3}});
  std::vector<TileCell> tiles_;
};

// The folder for temporary files may have no room for the model.
TEST_F(HashedModelTest, NeedsNoFile) {
  PutModel();
  const TestFolder folder;
  TileMover mover(*client_, [] {});
  const auto written =
      mover.WriteModel(folder.Path("model.safetensors"), *model_, 7, tiles_, false);
  EXPECT_TRUE(written.finite);
  const auto hashed = mover.HashModel(*model_, 7, tiles_);
  EXPECT_TRUE(hashed.finite);
  EXPECT_EQ(hashed.weights_sha256, written.weights_sha256);
  // Tiles may overlap after the boxes were cut anew.
  const TensorInfo first = ModelTensors(*model_).front();
  PutTile(0, first.matrix, {0, first.rows}, {0, first.cols});
  EXPECT_EQ(mover.HashModel(*model_, 7, tiles_).weights_sha256, written.weights_sha256);
}

}  // namespace
}  // namespace acan
