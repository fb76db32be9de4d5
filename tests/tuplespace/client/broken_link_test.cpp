// A broker, a link or a peer is lost at any point of large messages in both directions. No process
// may end because of that, and the remaining ones must continue. Each kind of loss happens 20 times
// in each role (see Losses).
#include <gmock/gmock.h>

#include <memory>
#include <random>
#include <string>

#include "broker_fixture.h"
#include "cutting_relay.h"

namespace tuplespace {
namespace {

constexpr int kTiles = 3;
constexpr std::size_t kTileBytes = 900'001;
constexpr std::uint64_t kMaxBytes = 2ull * kTiles * kTileBytes;

enum class Lost : std::uint8_t { kBroker, kLink, kPeer };
enum class LoadedRole : std::uint8_t { kHandler, kManager };

// A client behind a slow link that sends requests without waiting for answers.
class Loaded {
 public:
  Loaded(const std::string& endpoint, LoadedRole role) : role_(role), client_(Options(endpoint)) {}

  // Keeps large messages under way.
  void Go() {
    if (client_.unanswered() < 4) {
      if (role_ == LoadedRole::kManager) {
        PutTiles();
      } else {
        ReadTilesAndComplete();
      }
    }
    client_.Poll(std::chrono::microseconds(100));
  }
  Client& client() { return client_; }

 private:
  static ClientOptions Options(const std::string& endpoint) {
    ClientOptions options = ClientAt(endpoint);
    options.shared_memory = false;
    return options;
  }
  std::vector<Tuple> Tiles() {
    std::vector<Tuple> tiles;
    for (int tile = 0; tile < kTiles; ++tile) {
      tiles.push_back(
          PlainTuple({"made", client_.id(), ++made_}, std::string(kTileBytes, 'a' + tile)));
    }
    return tiles;
  }
  void PutTiles() { client_.Submit(Put{Tiles()}, nullptr); }
  void ReadTilesAndComplete() {
    Read read;
    for (int tile = 0; tile < kTiles; ++tile) read.patterns.push_back(Pattern::Of({"tile", tile}));
    client_.Submit(std::move(read), nullptr);
    // Sends results even without a lease.
    client_.Submit(Complete{{Key{"task"}, 1}, Tiles()}, nullptr);
  }

  const LoadedRole role_;
  Client client_;
  std::int64_t made_ = 0;
};

class BrokenLink : public ::testing::TestWithParam<std::tuple<LoadedRole, Lost>> {
 protected:
  void Lose(std::uint64_t at_bytes) {
    auto broker = std::make_unique<BrokerThread>("tcp://127.0.0.1:*");
    Client beside(ClientAt(broker->endpoint()));
    for (int tile = 0; tile < kTiles; ++tile) {
      ASSERT_TRUE(
          beside.Put({PlainTuple({"tile", tile}, std::string(kTileBytes, 't'))}, kGenerous));
    }
    CuttingRelay relay(broker->endpoint());
    auto loaded = std::make_unique<Loaded>(relay.endpoint(), std::get<0>(GetParam()));
    const auto until = [&](auto done) {
      const auto deadline = std::chrono::steady_clock::now() + kGenerous;
      while (!done()) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        loaded->Go();
      }
    };
    if (std::get<1>(GetParam()) == Lost::kLink) relay.CutAt(at_bytes);
    until([&] { return relay.passed() >= at_bytes; });
    switch (std::get<1>(GetParam())) {
      case Lost::kBroker:
        // The broker says goodbye, and ends while more messages are on their way to it.
        broker.reset();
        until([&] { return !loaded->client().connected(); });
        return;
      case Lost::kPeer:
        loaded.reset();
        break;
      case Lost::kLink:
        until([&] { return relay.has_cut(); });
        break;
    }
    if (loaded) until([&] { return loaded->client().connected(); });
    EXPECT_TRUE(beside.GetStatistics(kGenerous));
  }
};

TEST_P(BrokenLink, EndsNoProcess) {
  std::mt19937_64 random(1);
  for (int i = 0; i < Losses() && !HasFatalFailure(); ++i) {
    const std::uint64_t at_bytes = random() % kMaxBytes;
    SCOPED_TRACE(at_bytes);
    Lose(at_bytes);
  }
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<LoadedRole, Lost>>& info) {
  static constexpr const char* kRoles[] = {"Handler", "Manager"};
  static constexpr const char* kLost[] = {"LosesTheBroker", "LosesTheLink", "IsLost"};
  return std::string(kRoles[static_cast<int>(std::get<0>(info.param))]) +
         kLost[static_cast<int>(std::get<1>(info.param))];
}
INSTANTIATE_TEST_SUITE_P(
    Roles, BrokenLink,
    ::testing::Combine(::testing::Values(LoadedRole::kHandler, LoadedRole::kManager),
                       ::testing::Values(Lost::kBroker, Lost::kLink, Lost::kPeer)),
    NameOf);

}  // namespace
}  // namespace tuplespace
