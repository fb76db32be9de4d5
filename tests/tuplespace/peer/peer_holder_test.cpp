// A holder, driven step by step: which tickets it accepts, what it sends when, and its limits.
#include "peer_holder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tuplespace {
namespace {

constexpr std::uint64_t kSession = 12;
constexpr std::int64_t kBrokerUs = 5'000'000'000;  // ahead of the holder's clock
constexpr std::uint64_t kPiece = kPieceBytes;
const Key kTile{"tile", 1};

class PeerHolderTest : public ::testing::Test {
 protected:
  PeerHolderTest() { Begin({}); }
  void Begin(PeerHolderLimits limits) {
    holder_.emplace(secret_, limits);
    holder_->SessionBegan(kSession, kBrokerUs, now_us_);
  }
  std::string TicketFor(const Key& key, const std::string& reader = "reader",
                        const std::string& public_key = "") const {
    return MakeTicket(secret_, {kSession, reader, public_key, key.bytes()}, kBrokerUs + 60'000'000);
  }
  FetchFrame FetchOf(std::uint64_t number, const Key& key = kTile) const {
    return {number, TicketFor(key), 4 * kPieceBytes, "reader", key};
  }
  template <typename Frame>
  bool Say(const Frame& frame, const std::string& peer = "p", const std::string& public_key = "") {
    return holder_->Receive(peer, public_key, EncodePeer(frame), now_us_);
  }
  void Provide(const Key& key, std::uint64_t bytes) {
    holder_->Provide(key, Payload::Copy(std::string(bytes, 'x')), now_us_);
  }
  // Returns what was sent: the offset of each piece, or a negative number for the reason of a
  // refusal.
  std::vector<std::int64_t> Sent(const std::string& peer = "p") {
    std::vector<std::int64_t> sent;
    while (auto out = holder_->TakeOutput()) {
      if (out->peer != peer) continue;
      std::vector<std::byte> message = out->head;
      message.insert(message.end(), out->body.begin(), out->body.end());
      const auto frame = DecodeToReader(message);
      if (!frame) {
        ADD_FAILURE() << "what is sent cannot be read";
      } else if (const auto* piece = std::get_if<PieceFrame>(&*frame)) {
        sent.push_back(static_cast<std::int64_t>(piece->offset));
      } else {
        sent.push_back(-static_cast<std::int64_t>(std::get<RefusalFrame>(*frame).why));
      }
    }
    return sent;
  }
  static std::int64_t Refused(FetchRefusal why) { return -static_cast<std::int64_t>(why); }

  const std::string secret_ = MakeTicketSecret();
  std::int64_t now_us_ = 1'000;
  std::optional<PeerHolder> holder_;
};

using Offsets = std::vector<std::int64_t>;

TEST_F(PeerHolderTest, SendsWhatATicketAllowsWithinTheWindow) {
  EXPECT_TRUE(Say(FetchOf(1)));
  EXPECT_EQ(holder_->TakeAsked(), std::vector<Key>{kTile});
  EXPECT_EQ(Sent(), Offsets{});
  Provide(kTile, 6 * kPiece + 10);
  EXPECT_EQ(Sent(), (Offsets{0, kPiece, 2 * kPiece, 3 * kPiece}));
  Say(MoreFrame{1, 2 * kPiece});
  EXPECT_EQ(Sent(), (Offsets{4 * kPiece, 5 * kPiece}));
  Say(MoreFrame{1, 6 * kPiece});
  EXPECT_EQ(Sent(), (Offsets{6 * kPiece}));
  Say(MoreFrame{1, 6 * kPiece + 10});
  EXPECT_TRUE(holder_->idle());
  EXPECT_EQ(holder_->counts().sent_payloads, 1u);
  EXPECT_EQ(holder_->counts().sent_bytes, 6 * kPiece + 10);
}

TEST_F(PeerHolderTest, AsksOnceForAPayloadThatSeveralFetch) {
  Say(FetchOf(1), "p");
  Say(FetchOf(1), "q");
  EXPECT_EQ(holder_->TakeAsked().size(), 1u);
  Provide(kTile, 100);
  EXPECT_TRUE(holder_->TakeOutput() && holder_->TakeOutput());
}

TEST_F(PeerHolderTest, RefusesForgedExpiredAndForeignTickets) {
  FetchFrame fetch = FetchOf(1);
  fetch.ticket[20] = static_cast<char>(fetch.ticket[20] ^ 1);
  Say(fetch);
  fetch = FetchOf(2);
  fetch.reader = "thief";
  Say(fetch);
  fetch = FetchOf(3);
  fetch.key = Key{"tile", 2};
  Say(fetch);
  Say(FetchOf(4), "p", "a public key that the broker did not mean");
  EXPECT_EQ(Sent(), Offsets(4, Refused(FetchRefusal::kTicket)));
  EXPECT_EQ(holder_->counts().forged, 4u);
  now_us_ += 60'000'000;
  Say(FetchOf(5));
  EXPECT_EQ(Sent(), Offsets{Refused(FetchRefusal::kExpired)});
  EXPECT_EQ(holder_->counts().expired, 1u);
  EXPECT_TRUE(holder_->TakeAsked().empty());
  EXPECT_TRUE(holder_->idle());
}

TEST_F(PeerHolderTest, TicketsOfAnEndedSessionCountNoMore) {
  Say(FetchOf(1));
  Provide(kTile, 2 * kPiece);
  holder_->SessionEnded();
  Say(FetchOf(2));
  holder_->SessionBegan(kSession + 1, kBrokerUs, now_us_);
  Say(FetchOf(3));
  const Offsets expected{Refused(FetchRefusal::kGone), Refused(FetchRefusal::kTicket),
                         Refused(FetchRefusal::kTicket)};
  EXPECT_EQ(Sent(), expected);
}

TEST_F(PeerHolderTest, WhoGoesOnWithRefusedRequestsIsEnded) {
  FetchFrame forged = FetchOf(1);
  forged.ticket.back() = static_cast<char>(forged.ticket.back() ^ 1);
  int taken = 0;
  while (taken < 1000 && Say(forged)) ++taken;
  EXPECT_EQ(taken, 31);
  int malformed = 0;
  const std::vector<std::byte> garbage(30, std::byte{7});
  while (malformed < 1000 && holder_->Receive("q", "", garbage, now_us_)) ++malformed;
  EXPECT_EQ(malformed, 31);
  EXPECT_EQ(holder_->counts().malformed, 32u);
}

TEST_F(PeerHolderTest, LimitsTransfersOfOnePeerAndOfAll) {
  Begin({.transfers_per_peer = 2, .transfers = 3});
  for (std::uint64_t i = 1; i <= 3; ++i) Say(FetchOf(i, Key{"tile", static_cast<std::int64_t>(i)}));
  EXPECT_EQ(Sent(), Offsets{Refused(FetchRefusal::kBusy)});
  Say(FetchOf(1), "q");
  Say(FetchOf(1), "r");
  EXPECT_EQ(Sent("r"), Offsets{Refused(FetchRefusal::kBusy)});
  EXPECT_EQ(holder_->counts().busy, 2u);
}

TEST_F(PeerHolderTest, HoldsNoMoreUnderWayThanTheLimits) {
  Begin({.in_flight_bytes_per_peer = 2 * kPiece, .in_flight_bytes = 3 * kPiece});
  for (const char* peer : {"p", "q"}) {
    for (std::uint64_t i = 1; i <= 4; ++i) Say(FetchOf(i), peer);
  }
  Provide(kTile, 4 * kPiece);
  std::size_t messages = 0;
  while (holder_->TakeOutput()) ++messages;
  EXPECT_EQ(messages, 3u);
  holder_->PeerGone("p");
  while (holder_->TakeOutput()) ++messages;
  EXPECT_EQ(messages, 4u) << "of q, two are under way";
}

TEST_F(PeerHolderTest, AReaderThatTakesNothingIsDropped) {
  Say(FetchOf(1));
  Provide(kTile, 8 * kPiece);
  Sent();
  now_us_ = holder_->NextDeadlineUs();
  EXPECT_EQ(now_us_, 1'000 + 30'000'000);
  holder_->Tick(now_us_);
  EXPECT_EQ(holder_->TakeStalledPeers(), std::vector<std::string>{"p"});
  EXPECT_TRUE(holder_->idle());
  EXPECT_EQ(holder_->counts().stalled, 1u);
}

TEST_F(PeerHolderTest, ConfirmingWhatWasNotSentDoesNothing) {
  Say(FetchOf(1));
  Say(MoreFrame{1, 5});
  Provide(kTile, 6 * kPiece);
  EXPECT_EQ(Sent().size(), 4u);
  Say(MoreFrame{1, UINT64_MAX});
  Say(MoreFrame{1, 5 * kPiece});
  Say(MoreFrame{2, 1});
  EXPECT_EQ(Sent(), Offsets{});
}

TEST_F(PeerHolderTest, WhatIsWithdrawnOrNotHereIsRefused) {
  Say(FetchOf(1));
  holder_->Provide(kTile, {}, now_us_);
  EXPECT_EQ(Sent(), Offsets{Refused(FetchRefusal::kGone)});
  const Payload payload = Payload::Copy(std::string(8 * kPiece, 'x'));
  const std::weak_ptr<const void> bytes = payload.owner();
  Say(FetchOf(2));
  holder_->Provide(kTile, payload, now_us_);
  EXPECT_EQ(Sent().size(), 4u);
  EXPECT_EQ(bytes.use_count(), 2);
  holder_->Withdraw(kTile);
  EXPECT_EQ(bytes.use_count(), 1) << "nobody here keeps it";
  EXPECT_EQ(Sent(), Offsets{Refused(FetchRefusal::kGone)});
}

TEST_F(PeerHolderTest, AReaderMayStop) {
  Say(FetchOf(1));
  Provide(kTile, 8 * kPiece);
  Say(StopFrame{1});
  EXPECT_TRUE(holder_->idle());
  EXPECT_EQ(Sent(), Offsets{});
}

TEST_F(PeerHolderTest, ASmallWindowLetsOnePiecePassAtATime) {
  FetchFrame fetch = FetchOf(1);
  fetch.window_bytes = 0;
  Say(fetch);
  Provide(kTile, 2 * kPiece);
  EXPECT_EQ(Sent(), Offsets{0});
  Say(MoreFrame{1, kPiece});
  EXPECT_EQ(Sent(), Offsets{static_cast<std::int64_t>(kPiece)});
}

}  // namespace
}  // namespace tuplespace
