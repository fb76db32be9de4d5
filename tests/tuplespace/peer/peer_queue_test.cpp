// What a holder has sent and its sender still keeps: readers that confirm it unread, or stop it,
// make no room.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "holder_fixture.h"

namespace tuplespace {
namespace {

class PeerQueueTest : public PeerHolderTest {
 protected:
  // Takes all that may be sent; returns how many messages the sender then keeps.
  std::size_t Take() {
    while (auto out = holder_->TakeOutput()) queued_.push_back(std::move(*out));
    return queued_.size();
  }
  std::vector<PeerHolder::Outgoing> queued_;
};

TEST_F(PeerQueueTest, ConfirmingOrStoppingWhatIsStillQueuedMakesNoRoom) {
  Begin({.in_flight_bytes_per_peer = 4 * kPiece});
  for (std::uint64_t i = 1; i <= 4; ++i) Say(FetchOf(i));
  Provide(kTile, 3 * kPiece);
  EXPECT_EQ(Take(), 4u);
  Say(MoreFrame{1, 3 * kPiece});
  Say(StopFrame{2});
  EXPECT_EQ(Take(), 4u);
  EXPECT_LE(holder_->NextDeadlineUs(), now_us_ + 10'000)
      << "nobody tells when the queue is shorter";
  queued_.pop_back();
  holder_->Tick(now_us_);
  EXPECT_EQ(Take(), 4u) << "one has left, another one is sent";
  queued_.clear();
  holder_->Tick(now_us_);
  EXPECT_EQ(Take(), 3u) << "those are in flight, and one more was";
}

TEST_F(PeerQueueTest, WhatIsQueuedForAllIsLimitedToo) {
  Begin({.in_flight_bytes_per_peer = 2 * kPiece, .in_flight_bytes = 3 * kPiece});
  for (const char* peer : {"p", "q", "r"}) Say(FetchOf(1), peer);
  Provide(kTile, 2 * kPiece);
  EXPECT_EQ(Take(), 3u);
  for (const char* peer : {"p", "q", "r"}) holder_->PeerGone(peer);
  Say(FetchOf(1), "s");
  Provide(kTile, 2 * kPiece);
  EXPECT_EQ(Take(), 3u) << "its sender still keeps what ended connections were sent";
  EXPECT_LE(holder_->NextDeadlineUs(), now_us_ + 10'000);
  queued_.clear();
  EXPECT_EQ(Take(), 2u);
}

TEST_F(PeerQueueTest, WhoConfirmsWhatItDoesNotReadIsDropped) {
  Say(FetchOf(1));
  Provide(kTile, 2 * kPiece);
  EXPECT_EQ(Take(), 2u);
  Say(MoreFrame{1, 2 * kPiece});
  EXPECT_TRUE(holder_->idle());
  int looks = 0;
  while (holder_->NextDeadlineUs() != kForeverUs && ++looks < 10) {
    holder_->Tick(now_us_ = holder_->NextDeadlineUs());
  }
  EXPECT_EQ(holder_->TakeStalledPeers(), std::vector<std::string>{"p"});
  EXPECT_LE(now_us_, 1'000 + 2 * 30'000'000);
}

TEST_F(PeerQueueTest, AQueueThatShrinksIsNotStalled) {
  Say(FetchOf(1));
  Provide(kTile, 4 * kPiece);
  ASSERT_EQ(Take(), 4u);
  Say(StopFrame{1});
  while (!queued_.empty()) {
    queued_.pop_back();
    holder_->Tick(now_us_ += 29'000'000);
    EXPECT_TRUE(holder_->TakeStalledPeers().empty());
  }
  holder_->Tick(now_us_ += 100'000'000);
  EXPECT_EQ(holder_->NextDeadlineUs(), kForeverUs);
}

}  // namespace
}  // namespace tuplespace
