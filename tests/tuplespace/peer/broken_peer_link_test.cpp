// A holder, its reader or the link between them is lost at any point of large payloads. No process
// may end because of that, every fetch must end, and who remains must serve or fetch on.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>

#include "broker_fixture.h"
#include "courier.h"
#include "cutting_relay.h"
#include "ticket.h"
#include "tuplespace/clock.h"
#include "wake_up.h"

namespace tuplespace {
namespace {

enum class LostOfPeers : std::uint8_t { kHolder, kLink, kReader };

class PeersBrokenLink : public ::testing::TestWithParam<std::tuple<bool, LostOfPeers>> {
 protected:
  static constexpr int kPayloads = 3;
  static constexpr std::size_t kPayloadBytes = 900'001;
  static constexpr std::uint64_t kSession = 7;
  static constexpr std::int64_t kHourUs = 3'600'000'000;

  struct Peer {
    explicit Peer(CourierOptions options) : courier(std::move(options), wake) {}
    WakeUp wake;
    Courier courier;
  };

  static std::unique_ptr<Peer> NewPeer(const ClientId& client, const std::optional<KeyPair>& keys) {
    CourierOptions options;
    options.listen = "tcp://127.0.0.1:*";
    options.client = client;
    options.keys = keys;
    return std::make_unique<Peer>(std::move(options));
  }
  std::unique_ptr<Peer> NewReader() const { return NewPeer("reader", reader_keys_); }
  std::unique_ptr<Peer> NewHolder() const {
    auto holder = NewPeer("holder", holder_keys_);
    holder->courier.SessionBegan(kSession, MonotonicUs());
    for (int tile = 0; tile < kPayloads; ++tile) {
      holder->courier.Offer(Key{"tile", tile}, Payload::Copy(tile_));
    }
    return holder;
  }
  // Begins to fetch all payloads of `holder`, which is reached at this endpoint. Holders that the
  // broker names differently share no link, and no pause after a failure.
  void BeginFetches(Peer& reader, const Peer& holder, const std::string& endpoint,
                    const ClientId& named) {
    const Listening& listening = holder.courier.listening();
    for (int tile = 0; tile < kPayloads; ++tile) {
      const Key key{"tile", tile};
      const TicketClaims claims{kSession, "reader",
                                reader_keys_ ? std::string_view(reader_keys_->public_key) : "",
                                key.bytes()};
      const Place place{endpoint, listening.public_key,
                        MakeTicket(listening.secret, claims, MonotonicUs() + kHourUs)};
      reader.courier.Fetch(++fetches_, key, kPayloadBytes, place, named);
    }
  }
  template <typename Done>
  static void Until(Done done) {
    const auto deadline = std::chrono::steady_clock::now() + kGenerous;
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
    }
  }
  // Waits until all fetches have ended, and returns how many brought the payload.
  int Await(Peer& reader) const {
    int ended = 0, whole = 0;
    Until([&] {
      for (const Courier::Event& event : reader.courier.TakeEvents()) {
        const auto& fetched = std::get<FetchedPayload>(event);
        const bool failed = fetched.payload.empty();
        EXPECT_TRUE(failed ? !fetched.why.empty() : fetched.payload.text() == tile_);
        whole += failed ? 0 : 1;
        ++ended;
      }
      return ended >= kPayloads;
    });
    return whole;
  }
  void Lose(LostOfPeers lost, std::uint64_t at_bytes) {
    std::unique_ptr<Peer> holder = NewHolder();
    std::unique_ptr<Peer> reader = NewReader();
    CuttingRelay relay(holder->courier.listening().endpoint);
    if (lost == LostOfPeers::kLink) relay.CutAt(at_bytes);
    BeginFetches(*reader, *holder, relay.endpoint(), "holder");
    Until([&] { return relay.passed() >= at_bytes; });
    if (lost == LostOfPeers::kReader) {
      reader = NewReader();
    } else {
      if (lost == LostOfPeers::kHolder) holder.reset();
      failed_ += kPayloads - Await(*reader);
      if (lost == LostOfPeers::kHolder) holder = NewHolder();
    }
    BeginFetches(*reader, *holder, holder->courier.listening().endpoint, "holder again");
    EXPECT_EQ(Await(*reader), kPayloads);
  }
  static std::optional<KeyPair> NewKeys() {
    return std::get<0>(GetParam()) ? std::optional(MakeKeyPair()) : std::nullopt;
  }

  const std::string tile_ = Repeated(kPayloadBytes, 3);
  const std::optional<KeyPair> holder_keys_ = NewKeys(), reader_keys_ = NewKeys();
  std::uint64_t fetches_ = 0;
  int failed_ = 0;  // fetches, because of the losses
};

TEST_P(PeersBrokenLink, EndsNoProcess) {
  const LostOfPeers lost = std::get<1>(GetParam());
  std::mt19937_64 random(1);
  for (int i = 0; i < Losses() && !HasFailure(); ++i) {
    const std::uint64_t at_bytes = random() % (kPayloads * kPayloadBytes);
    SCOPED_TRACE(at_bytes);
    Lose(lost, at_bytes);
  }
  EXPECT_TRUE(lost == LostOfPeers::kReader || failed_ > 0) << "else it shows nothing";
}

std::string NameOfLoss(const ::testing::TestParamInfo<std::tuple<bool, LostOfPeers>>& info) {
  static constexpr const char* kLost[] = {"LosesTheHolder", "LosesTheLink", "LosesTheReader"};
  return std::string(std::get<0>(info.param) ? "Keys" : "Clear") +
         kLost[static_cast<int>(std::get<1>(info.param))];
}
INSTANTIATE_TEST_SUITE_P(Peers, PeersBrokenLink,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(LostOfPeers::kHolder,
                                                              LostOfPeers::kLink,
                                                              LostOfPeers::kReader)),
                         NameOfLoss);

}  // namespace
}  // namespace tuplespace
