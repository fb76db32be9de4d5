// A holder, driven step by step: which tickets it accepts, what it sends when, and its limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "holder_fixture.h"

namespace tuplespace {
namespace {

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

// Its copies take memory.
TEST_F(PeerHolderTest, DoesNotAskAgainForAPayloadThatIsBeingSent) {
  Say(FetchOf(1), "p");
  Provide(kTile, 100);
  holder_->TakeAsked();
  Say(FetchOf(1), "q");
  EXPECT_TRUE(holder_->TakeAsked().empty());
  EXPECT_EQ(Served(), "pq");
  Say(MoreFrame{1, 100}, "p");
  Say(MoreFrame{1, 100}, "q");
  EXPECT_TRUE(holder_->idle());
  Say(FetchOf(2), "p");
  EXPECT_EQ(holder_->TakeAsked(), std::vector<Key>{kTile}) << "nothing has kept it";
}

// Each request to the client may cost a copy from a device.
TEST_F(PeerHolderTest, WhoFetchesAndStopsAgainAndAgainIsAskedForOnceAndEnded) {
  bool good = true;
  for (std::uint64_t i = 1; i <= 1'000; ++i) {
    Say(FetchOf(i));
    good = Say(StopFrame{i});
  }
  EXPECT_FALSE(good);
  EXPECT_EQ(holder_->TakeAsked(), std::vector<Key>{kTile});
  Say(FetchOf(1), "q");
  EXPECT_TRUE(holder_->TakeAsked().empty()) << "the client has not answered yet";
  Provide(kTile, 100);
  EXPECT_EQ(Served(), "q");
}

TEST_F(PeerHolderTest, WhatIsWithdrawnBeforeTheClientWasAskedIsAskedForAgain) {
  Say(FetchOf(1));
  holder_->Withdraw(kTile);
  EXPECT_TRUE(holder_->TakeAsked().empty());
  Say(FetchOf(2));
  EXPECT_EQ(holder_->TakeAsked(), std::vector<Key>{kTile});
}

TEST_F(PeerHolderTest, TicketsOfANewSessionAreServedIfTheClientWasNotAskedInTheLastOne) {
  Say(FetchOf(1));
  holder_->SessionEnded();
  holder_->SessionBegan(kHolderSession, kBrokerUs, now_us_);
  Say(FetchOf(2));
  EXPECT_EQ(holder_->TakeAsked(), std::vector<Key>{kTile});
}

TEST_F(PeerHolderTest, WhoGivesUpAFetchNowAndThenIsServedOn) {
  for (std::uint64_t i = 1; i <= 1'000; i += 2) {
    Say(FetchOf(i));
    EXPECT_TRUE(Say(StopFrame{i}));
    Say(FetchOf(i + 1));
    Provide(kTile, kPiece);
    EXPECT_EQ(Sent(), Offsets{0});
    Say(MoreFrame{i + 1, kPiece});
  }
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
  holder_->SessionBegan(kHolderSession + 1, kBrokerUs, now_us_);
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

// What waits for its turn has nothing to confirm.
TEST_F(PeerHolderTest, AReaderThatWaitedForItsTurnIsNotDropped) {
  Begin({.in_flight_bytes = 2 * kPiece});
  for (const char* peer : {"p", "q", "r"}) Say(FetchOf(1), peer);
  Provide(kTile, 2 * kPiece);
  EXPECT_EQ(Served(), "pq");
  for (const std::uint64_t confirmed : {kPiece / 2, kPiece}) {
    now_us_ += 20'000'000;
    Say(MoreFrame{1, confirmed}, "p");
    Say(MoreFrame{1, confirmed}, "q");
    holder_->Tick(now_us_);
  }
  EXPECT_EQ(Served(), "rp") << "r waited for 40 s";
  holder_->Tick(now_us_ += 1'000);
  EXPECT_TRUE(holder_->TakeStalledPeers().empty());
  now_us_ += 20'000'000;
  Say(MoreFrame{1, 2 * kPiece}, "p");
  holder_->Tick(now_us_ += 10'000'000);
  EXPECT_EQ(holder_->TakeStalledPeers(), std::vector<std::string>{"r"});
}

// They come in order, so the first of one payload come after the last of another.
TEST_F(PeerHolderTest, PiecesThatComeAfterOthersAreNotStalled) {
  Say(FetchOf(1, Key{"tile", 1}));
  Say(FetchOf(2, Key{"tile", 2}));
  Provide(Key{"tile", 1}, 4 * kPiece);
  Provide(Key{"tile", 2}, kPiece);
  EXPECT_EQ(Sent().size(), 5u);
  for (std::uint64_t i = 1; i <= 4; ++i) {
    now_us_ += 10'000'000;
    Say(MoreFrame{1, i * kPiece});
    holder_->Tick(now_us_);
  }
  EXPECT_TRUE(holder_->TakeStalledPeers().empty());
  EXPECT_FALSE(holder_->idle());
}

TEST_F(PeerHolderTest, HasNoDeadlineWhenNothingIsInFlight) {
  Say(FetchOf(1));
  EXPECT_EQ(holder_->NextDeadlineUs(), kForeverUs);
  Provide(kTile, kPiece);
  Sent();
  Say(MoreFrame{1, kPiece});
  now_us_ = holder_->NextDeadlineUs();
  holder_->Tick(now_us_);
  EXPECT_EQ(holder_->NextDeadlineUs(), kForeverUs);
  EXPECT_TRUE(holder_->TakeStalledPeers().empty());
}

// ---- whose turn it is

TEST_F(PeerHolderTest, PeersTakeTurns) {
  Begin({.in_flight_bytes = 4 * kPiece});
  Say(FetchOf(1), "p");
  Provide(kTile, 100 * kPiece);
  EXPECT_EQ(Served(), "pppp");
  Say(FetchOf(1), "q");
  Say(FetchOf(1), "r");
  Say(MoreFrame{1, kPiece}, "p");
  Say(MoreFrame{1, 2 * kPiece}, "p");
  Say(MoreFrame{1, 3 * kPiece}, "p");
  EXPECT_EQ(Served(), "pqr") << "new ones wait for a round";
  Say(MoreFrame{1, kPiece}, "r");
  Say(MoreFrame{1, kPiece}, "q");
  EXPECT_EQ(Served(), "pq");
  Say(MoreFrame{1, 4 * kPiece}, "p");
  EXPECT_EQ(Served(), "r");
}

// The others have used up what may be in flight, and confirm it piece by piece.
TEST_F(PeerHolderTest, WhoWasServedLongestAgoComesFirst) {
  Begin({.in_flight_bytes = 3 * kPiece});
  FetchFrame small = FetchOf(1);
  small.window_bytes = 0;  // one piece at a time
  Say(small, "s");
  Say(FetchOf(1), "p");
  Provide(kTile, 100 * kPiece);
  EXPECT_EQ(Served(), "spp");
  for (std::uint64_t i = 1; i <= 5; ++i) {
    Say(MoreFrame{1, i * kPiece}, "p");
    EXPECT_EQ(Served(), "p") << "the window of the other one is full";
  }
  Say(MoreFrame{1, 6 * kPiece}, "p");
  Say(MoreFrame{1, kPiece}, "s");
  EXPECT_EQ(Served(), "sp");
}

TEST_F(PeerHolderTest, TheTransfersOfAPeerProceedInTheirOrder) {
  Begin({.in_flight_bytes_per_peer = 2 * kPiece});
  for (std::int64_t i = 1; i <= 3; ++i) {
    Say(FetchOf(static_cast<std::uint64_t>(i), Key{"tile", i}));
    Provide(Key{"tile", i}, 2 * kPiece + static_cast<std::uint64_t>(i));
  }
  EXPECT_EQ(Sent(), (Offsets{0, kPiece}));
  Say(MoreFrame{1, 2 * kPiece});
  EXPECT_EQ(Sent(), (Offsets{2 * kPiece, 0}));
  Say(MoreFrame{1, 2 * kPiece + 1});
  EXPECT_EQ(Sent(), (Offsets{kPiece}));
}

// Random peers and payloads, against a model of what may be sent. Each turn of a peer is the one of
// the peer that was served longest ago among those that may be served.
class RandomPeers : public PeerHolderTest, public ::testing::WithParamInterface<std::uint32_t> {
 protected:
  struct Sending {
    std::uint64_t number = 0, window_bytes = 0, bytes = 0, sent = 0, confirmed = 0;
    bool provided = false;
    Key key;
    bool MaySend() const {
      const std::uint64_t in_flight = sent - confirmed;
      return provided && sent < bytes && (in_flight == 0 || in_flight + kPiece <= window_bytes);
    }
  };
  using Model = std::map<std::string, std::vector<Sending>>;

  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }
  static std::uint64_t InFlight(const std::vector<Sending>& sendings) {
    std::uint64_t bytes = 0;
    for (const Sending& one : sendings) bytes += one.sent - one.confirmed;
    return bytes;
  }
  std::uint64_t InFlight() const {
    std::uint64_t bytes = 0;
    for (const auto& [peer, sendings] : model_) bytes += InFlight(sendings);
    return bytes;
  }
  // Whose turn it is; empty: nobody's.
  std::string Next() {
    std::string next;
    if (InFlight() + kPiece > limits_.in_flight_bytes) return next;
    for (const auto& [peer, sendings] : model_) {
      if (InFlight(sendings) + kPiece > limits_.in_flight_bytes_per_peer) continue;
      if (std::none_of(sendings.begin(), sendings.end(), [](auto& one) { return one.MaySend(); })) {
        continue;
      }
      if (next.empty() || served_[peer] < served_[next]) next = peer;
    }
    return next;
  }
  void Fetch(const std::string& peer) {
    Sending begun;
    begun.number = ++numbers_;
    begun.window_bytes = Below(5) * kPiece;
    begun.bytes = 1 + Below(5 * kPiece);
    begun.key = Key{"tile", static_cast<std::int64_t>(begun.number)};
    FetchFrame fetch = FetchOf(begun.number, begun.key);
    fetch.window_bytes = static_cast<std::uint32_t>(begun.window_bytes);
    Say(fetch, peer);
    if (model_[peer].empty()) served_[peer] = ++turns_;
    model_[peer].push_back(begun);
  }
  void Change(const std::string& peer, std::size_t which) {
    std::vector<Sending>& sendings = model_[peer];
    Sending& one = sendings[which];
    const std::uint64_t what = Below(10);
    if (!one.provided) {
      Provide(one.key, one.bytes);
      one.provided = true;
    } else if (what == 0) {
      Say(StopFrame{one.number}, peer);
      one.confirmed = one.bytes;
    } else if (what == 1) {
      holder_->Withdraw(one.key);
      one.confirmed = one.bytes;
    } else if (one.sent > one.confirmed) {
      one.confirmed += 1 + Below(one.sent - one.confirmed);
      Say(MoreFrame{one.number, one.confirmed}, peer);
    }
    if (one.confirmed == one.bytes) sendings.erase(sendings.begin() + static_cast<long>(which));
  }
  void TakeAll() {
    for (std::optional<PeerHolder::Outgoing> out; (out = holder_->TakeOutput());) {
      if (out->body.empty()) continue;  // a refusal
      ASSERT_EQ(out->peer, Next());
      std::vector<Sending>& sendings = model_[out->peer];
      const auto first = std::find_if(sendings.begin(), sendings.end(),
                                      [](const Sending& one) { return one.MaySend(); });
      first->sent += out->body.size();
      ASSERT_LE(first->sent, first->bytes);
      served_[out->peer] = ++turns_;
    }
    ASSERT_EQ(Next(), "");
  }

  const PeerHolderLimits limits_{.window_bytes = 4 * kPiece,
                                 .in_flight_bytes_per_peer = 6 * kPiece,
                                 .in_flight_bytes = 16 * kPiece};
  std::mt19937 random_{GetParam()};
  Model model_;
  std::map<std::string, std::uint64_t> served_;
  std::uint64_t turns_ = 0, numbers_ = 0;
};

TEST_P(RandomPeers, AreServedInTurnWithinTheLimits) {
  Begin(limits_);
  for (int step = 0; step < 3'000; ++step) {
    const std::string peer(1, static_cast<char>('a' + Below(8)));
    const std::vector<Sending>& sendings = model_[peer];
    if (Below(200) == 0) {
      holder_->PeerGone(peer);
      model_[peer].clear();
    } else if (sendings.empty() || (sendings.size() < 5 && Below(4) == 0)) {
      Fetch(peer);
    } else {
      Change(peer, Below(sendings.size()));
    }
    ASSERT_NO_FATAL_FAILURE(TakeAll()) << "step " << step;
  }
  for (auto& [peer, sendings] : model_) {
    holder_->PeerGone(peer);
    sendings.clear();
  }
  EXPECT_TRUE(holder_->idle());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPeers, ::testing::Range(1u, 9u));

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
