// A tile of a wrong size, as a handler with a fault may put it.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/error.h"
#include "acan/manager/model_file.h"
#include "acan/manager/tile_mover.h"
#include "acan/manager/tuple_names.h"
#include "space_fixture.h"

namespace acan {
namespace {

constexpr const char* kRunOfTiles = "run";

class WrongTileTest : public SpaceTest {
 protected:
  // One for each tensor.
  std::vector<TileCell> TilesOfTensors(std::int64_t version) const {
    std::vector<TileCell> tiles;
    for (const TensorInfo& tensor : ModelTensors(*model_)) {
      const Range rows{0, tensor.rows}, cols{0, tensor.cols};
      tiles.push_back(
          {TileKey(kRunOfTiles, version, tensor.matrix, rows, cols), tensor.matrix, rows, cols});
    }
    return tiles;
  }
  void PutTile(const TileCell& tile, std::size_t bytes) {
    tuplespace::Tuple tuple;
    tuple.key = tile.key;
    tuple.payload = tuplespace::Payload::Copy(std::string(bytes, '\1'));
    client_->Put({std::move(tuple)});
  }
  static std::size_t RightBytes(const TileCell& tile) {
    return sizeof(float) * static_cast<std::size_t>(tile.outputs.size() * tile.inputs.size());
  }

  const std::shared_ptr<const TrainedModel> model_ = BuildModel(Perceptron{{3, 2}});
};

// Otherwise each manager that resumes the run would begin with that version, and fail.
TEST_F(WrongTileTest, AVersionWithOneIsNotWhole) {
  for (const std::int64_t version : {1, 2}) {
    const std::vector<TileCell> tiles = TilesOfTensors(version);
    for (const TileCell& tile : tiles) {
      const bool is_wrong = version == 2 && &tile == &tiles.back();
      PutTile(tile, is_wrong ? RightBytes(tile) + sizeof(float) : RightBytes(tile));
    }
  }
  TileMover mover(*client_, [] {});
  const auto whole = mover.FindWhole(kRunOfTiles, *model_, 0, INT64_MAX);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->version, 1);
}

TEST_F(WrongTileTest, WhoPutItIsNamed) {
  const TileCell tile = TilesOfTensors(1).front();
  PutTile(tile, 4);
  TileMover mover(*client_, [] {});
  try {
    mover.Fetch(tile);
    ADD_FAILURE() << "it was read";
  } catch (const Error& wrong) {
    const std::string text = wrong.what();
    EXPECT_NE(text.find(client_->id()), std::string::npos) << text;
    EXPECT_NE(text.find("has 4 bytes"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace acan
