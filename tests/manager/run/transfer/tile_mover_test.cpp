// Which tiles form a whole matrix, and what remains of a model that is only hashed.
#include "acan/manager/tile_mover.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <zmq.hpp>

#include "acan/manager/model_file.h"
#include "slow_link.h"
#include "tuplespace/broker.h"

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

// A process may be killed at any moment, so there must never be a file that it could leave behind.
TEST(TileMoverTest, AModelThatIsOnlyHashedHasNoFile) {
  const std::filesystem::path parent = std::filesystem::temp_directory_path();
  std::string folder = parent / "acan-test-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const char* before = std::getenv("TMPDIR");
  const std::string restored = before == nullptr ? "" : before;
  ::setenv("TMPDIR", folder.c_str(), 1);

  zmq::context_t context;
  tuplespace::BrokerOptions options;
  options.listen = {"inproc://space"};
  options.context = &context;
  tuplespace::Broker broker(std::move(options));
  std::thread serving([&] { broker.Run(); });
  tuplespace::Client client(
      {.endpoint = "inproc://space", .name = "test", .id = {}, .context = &context});
  std::vector<TileCell> tiles;
  const auto model = BuildModel(Perceptron{{3, 2}});
  const std::vector<model::Parameter>& parameters = model->training.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const model::Parameter& parameter = parameters[i];
    tiles.push_back({{"tile", static_cast<std::int64_t>(i)},
                     {ParameterId{static_cast<std::int64_t>(i)}, ParameterState::kValue},
                     {0, parameter.rows},
                     {0, parameter.columns}});
    tuplespace::Tuple tuple;
    tuple.key = tiles.back().key;
    const auto bytes = static_cast<std::size_t>(4 * parameter.elements());
    tuple.payload = tuplespace::Payload::Copy(std::string(bytes, '\1'));
    client.Put({std::move(tuple)});
  }
  int looked = 0;
  TileMover mover(client, [&] {
    ++looked;
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  });
  EXPECT_EQ(mover.WriteModel("", *model, 0, tiles, true).weights_sha256.size(), 64u);
  EXPECT_GE(looked, 2);
  broker.Stop();
  serving.join();
  before == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", restored.c_str(), 1);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace acan
