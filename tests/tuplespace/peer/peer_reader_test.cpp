// A reader, driven step by step: whole payloads, damage, lies, stalls.
#include "peer_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "peer_holder.h"

namespace tuplespace {
namespace {

const Key kReadTile{"tile", 1};
// The least that may come in a piece which is not the last.
constexpr std::uint64_t kReadPiece = 64 << 10;
constexpr std::int64_t kReadSecondUs = 1'000'000;
constexpr std::int64_t kReadConnectUs = 3 * kReadSecondUs, kReadStallUs = 5 * kReadSecondUs;

class PeerReaderTest : public ::testing::Test {
 protected:
  void Fetch(std::uint64_t id, std::uint64_t bytes) {
    reader_->Fetch({id, kReadTile, bytes, std::string(kTicketBytes, 't'), "reader"}, now_us_);
  }
  void Receive(const std::string& payload, std::uint64_t id, std::uint64_t offset,
               std::uint64_t bytes, std::optional<PayloadHash> hash = {}) {
    const auto all = std::as_bytes(std::span(payload));
    const PieceFrame piece{id, payload.size(), offset, hash.value_or(HashOf(all)),
                           all.subspan(offset, bytes)};
    std::vector<std::byte> message = EncodePeerHead(piece);
    message.insert(message.end(), piece.bytes.begin(), piece.bytes.end());
    reader_->Receive(message, now_us_);
  }
  // Returns what it sent to the holder: a fetch as its number, a confirmation as the confirmed
  // amount.
  std::vector<std::uint64_t> Said() {
    std::vector<std::uint64_t> said;
    for (const auto& message : reader_->TakeOutput()) {
      const auto frame = DecodeToHolder(message);
      if (!frame) {
        ADD_FAILURE() << "what is sent cannot be read";
      } else if (const auto* fetch = std::get_if<FetchFrame>(&*frame)) {
        said.push_back(fetch->transfer);
      } else if (const auto* more = std::get_if<MoreFrame>(&*frame)) {
        said.push_back(more->received_bytes);
      }
    }
    return said;
  }
  std::int64_t now_us_ = 1'000;
  std::unique_ptr<PeerReader> reader_ =
      std::make_unique<PeerReader>(PeerReaderLimits{.open_fetches = 2});
};

TEST_F(PeerReaderTest, PutsAPayloadTogether) {
  const std::string payload(kReadPiece + 1'000, 'p');
  Fetch(7, payload.size());
  EXPECT_EQ(Said(), std::vector<std::uint64_t>{7});
  Receive(payload, 7, 0, kReadPiece);
  EXPECT_EQ(Said(), std::vector<std::uint64_t>{kReadPiece});
  EXPECT_TRUE(reader_->TakeFetched().empty());
  Receive(payload, 7, kReadPiece, 1'000);
  EXPECT_EQ(Said(), std::vector<std::uint64_t>{payload.size()});
  const auto fetched = reader_->TakeFetched();
  ASSERT_EQ(fetched.size(), 1u);
  EXPECT_EQ(fetched[0].payload.text(), payload);
  EXPECT_EQ(fetched[0].payload.hash(), HashOf(fetched[0].payload.bytes()));
  EXPECT_TRUE(reader_->idle());
}

TEST_F(PeerReaderTest, APayloadWithoutItsHashIsNotUsed) {
  Fetch(1, 100);
  Receive(std::string(100, 'a'), 1, 0, 100, PayloadHash{1, 2});
  const auto fetched = reader_->TakeFetched();
  ASSERT_EQ(fetched.size(), 1u);
  EXPECT_TRUE(fetched[0].payload.empty());
  EXPECT_NE(fetched[0].why.find("hash"), std::string::npos);
  EXPECT_FALSE(reader_->failed()) << "the next payload may be whole";
}

// Each costs a whole transfer, and comes through the broker after that.
TEST_F(PeerReaderTest, WhoSendsTwoPayloadsInARowWithoutTheirHashesFails) {
  const std::string payload(100, 'a');
  for (const std::uint64_t id : {1, 2, 3, 4}) {
    Fetch(id, payload.size());
    const bool right = id == 2;
    Receive(payload, id, 0, payload.size(),
            right ? std::nullopt : std::optional(PayloadHash{1, 2}));
    EXPECT_EQ(reader_->TakeFetched().at(0).payload.empty(), !right) << id;
    EXPECT_EQ(reader_->failed(), id == 4) << id;
  }
}

TEST_F(PeerReaderTest, OtherBytesThanTheSpaceHasAreNotFetchedToTheirEnd) {
  const std::string whole(3 * kReadPiece, 'x');
  for (const std::uint64_t id : {1, 2}) {
    reader_->Fetch(
        {id, kReadTile, whole.size(), std::string(kTicketBytes, 't'), "reader", PayloadHash{3, 4}},
        now_us_);
    Receive(whole, id, 0, kReadPiece);
    const auto fetched = reader_->TakeFetched();
    ASSERT_EQ(fetched.size(), 1u) << id;
    EXPECT_TRUE(fetched[0].payload.empty()) << id;
    EXPECT_NE(fetched[0].why.find("other bytes"), std::string::npos) << fetched[0].why;
    EXPECT_EQ(reader_->failed(), id == 2) << id;
  }
}

TEST_F(PeerReaderTest, WhoSendsAnotherSizeOrOrderFails) {
  for (const int lie : {0, 1, 2}) {
    reader_ = std::make_unique<PeerReader>(PeerReaderLimits());
    const std::string whole(3 * kReadPiece, 'x');
    Fetch(1, whole.size());
    if (lie == 0) Receive(std::string(4 * kReadPiece, 'x'), 1, 0, kReadPiece);
    if (lie == 1) Receive(whole, 1, kReadPiece, kReadPiece);
    if (lie == 2) {
      Receive(whole, 1, 0, kReadPiece);
      Receive(whole, 1, kReadPiece, kReadPiece, PayloadHash{3, 4});
    }
    EXPECT_TRUE(reader_->failed()) << lie;
    EXPECT_EQ(reader_->TakeFetched().size(), 1u) << lie;
  }
}

TEST_F(PeerReaderTest, TheOthersWaitForTheirTurn) {
  for (const std::uint64_t id : {1, 2, 3}) Fetch(id, 10);
  EXPECT_EQ(Said(), (std::vector<std::uint64_t>{1, 2}));
  reader_->Receive(EncodePeer(RefusalFrame{1, FetchRefusal::kGone}), now_us_);
  EXPECT_EQ(Said(), std::vector<std::uint64_t>{3});
  EXPECT_EQ(reader_->TakeFetched().at(0).id, 1u);
}

TEST_F(PeerReaderTest, AHolderThatSaysNothingFailsAllFetches) {
  for (const std::uint64_t id : {1, 2, 3}) Fetch(id, 10);
  now_us_ = reader_->NextDeadlineUs();
  EXPECT_EQ(now_us_, 1'000 + 3'000'000);
  reader_->Tick(now_us_);
  EXPECT_TRUE(reader_->failed());
  EXPECT_EQ(reader_->TakeFetched().size(), 3u);
}

TEST_F(PeerReaderTest, AHolderThatStopsInTheMiddleFails) {
  Fetch(1, 30 * kReadPiece);
  now_us_ += 2'900'000;
  Receive(std::string(30 * kReadPiece, 'x'), 1, 0, kReadPiece);
  EXPECT_EQ(reader_->NextDeadlineUs(), now_us_ + 5'000'000);
  now_us_ += 5'000'000;
  reader_->Tick(now_us_);
  EXPECT_EQ(reader_->TakeFetched().size(), 1u);
  EXPECT_TRUE(reader_->failed());
}

// ---- holders that send something, but not what was asked for

TEST_F(PeerReaderTest, WhatBelongsToNoFetchDoesNotKeepAFetchAlive) {
  for (const bool stopped : {false, true}) {  // the reader may still get pieces of what it stopped
    reader_ = std::make_unique<PeerReader>(PeerReaderLimits());
    if (stopped) {
      Fetch(1, 100);
      reader_->Forget(1);
    }
    Fetch(2, 100);
    const std::int64_t begin_us = now_us_;
    while (!reader_->failed() && now_us_ < begin_us + 60 * kReadSecondUs) {
      now_us_ += kReadSecondUs;
      reader_->Receive(EncodePeer(RefusalFrame{1, FetchRefusal::kGone}), now_us_);
      reader_->Tick(now_us_);
    }
    EXPECT_LE(now_us_ - begin_us, kReadConnectUs + kReadStallUs);
    ASSERT_EQ(reader_->TakeFetched().size(), 1u);
  }
}

TEST_F(PeerReaderTest, WhoSendsMuchThatBelongsToNoFetchFails) {
  Fetch(9, 100);
  for (int i = 0; i < 20; ++i) {
    reader_->Receive(EncodePeer(RefusalFrame{1, FetchRefusal::kGone}), now_us_);
  }
  EXPECT_TRUE(reader_->failed());
  EXPECT_EQ(reader_->TakeFetched().size(), 1u);
}

// A holder that was told to stop may have sent a window of pieces before.
TEST_F(PeerReaderTest, PiecesOfWhatWasStoppedAreNoFault) {
  const std::string whole(80 * kReadPiece, 'x');
  Fetch(1, whole.size());
  Fetch(2, 100);
  Receive(whole, 1, 0, kReadPiece);
  reader_->Forget(1);
  for (std::uint64_t i = 1; i <= 64; ++i) Receive(whole, 1, i * kReadPiece, kReadPiece);
  reader_->Receive(EncodePeer(RefusalFrame{1, FetchRefusal::kGone}), now_us_);
  EXPECT_FALSE(reader_->failed());
  Receive(std::string(100, 'y'), 2, 0, 100);
  EXPECT_EQ(reader_->TakeFetched().size(), 1u);
}

TEST_F(PeerReaderTest, WhoSendsOneByteAtATimeFails) {
  const std::string whole(10 * kReadPiece, 'x');
  Fetch(1, whole.size());
  for (std::uint64_t i = 0; i < 60 && !reader_->failed(); ++i) {
    Receive(whole, 1, i, 1);
    now_us_ += kReadSecondUs;
    reader_->Tick(now_us_);
  }
  EXPECT_LE(now_us_ - 1'000, kReadConnectUs + kReadStallUs);
  EXPECT_TRUE(reader_->failed());
}

// Pieces that are due, but so few that the payload would take hours.
TEST_F(PeerReaderTest, AFetchTakesNoLongerThanItsBytesAtTheLeastRate) {
  const std::string whole(64 * kReadPiece, 'x');
  Fetch(1, whole.size());
  const std::int64_t begin_us = now_us_;
  for (std::uint64_t i = 0; i < 64 && !reader_->failed(); ++i) {
    now_us_ += kReadStallUs - 1;
    Receive(whole, 1, i * kReadPiece, kReadPiece);
    reader_->Tick(now_us_);
  }
  EXPECT_TRUE(reader_->failed());
  EXPECT_LE(now_us_ - begin_us, kReadConnectUs + 2 * kReadStallUs + 64 * kReadSecondUs);
}

// One refused after the other, and the first one never comes.
TEST_F(PeerReaderTest, RefusalsDoNotKeepTheOtherFetchesAlive) {
  Fetch(1, 100);
  const std::int64_t begin_us = now_us_;
  for (std::uint64_t id = 2; id < 30 && !reader_->failed(); ++id) {
    Fetch(id, 100);
    now_us_ += 2 * kReadSecondUs;
    reader_->Receive(EncodePeer(RefusalFrame{id, FetchRefusal::kGone}), now_us_);
    reader_->Tick(now_us_);
  }
  EXPECT_TRUE(reader_->failed());
  EXPECT_LE(now_us_ - begin_us, kReadConnectUs + kReadStallUs + 2 * kReadSecondUs);
}

// Large ones are refused one after the other, and the first one comes as slowly as it may.
TEST_F(PeerReaderTest, RefusedBytesGiveTheOthersNoTime) {
  const std::string whole(64 * kReadPiece, 'x');
  Fetch(1, whole.size());
  const std::int64_t begin_us = now_us_;
  for (std::uint64_t i = 0; i < 64 && !reader_->failed(); ++i) {
    Fetch(2 + i, 1 << 30);
    now_us_ += kReadStallUs - 1;
    Receive(whole, 1, i * kReadPiece, kReadPiece);
    reader_->Receive(EncodePeer(RefusalFrame{2 + i, FetchRefusal::kGone}), now_us_);
    reader_->Tick(now_us_);
  }
  EXPECT_TRUE(reader_->failed());
  EXPECT_LE(now_us_ - begin_us, kReadConnectUs + 2 * kReadStallUs + 64 * kReadSecondUs);
}

// ---- honest holders over slow links

// Readers that fetch from one holder, whose link transports its messages one after the other.
class HoldersLink {
 public:
  explicit HoldersLink(std::int64_t us_per_byte, PeerHolderLimits limits = {})
      : us_per_byte_(us_per_byte), holder_(secret_, limits) {
    holder_.SessionBegan(kLinkSession, 0, 0);
  }
  // Another reader, which fetches `count` payloads of `bytes`.
  void Add(std::size_t count, std::uint64_t bytes) {
    const auto number = static_cast<std::int64_t>(readers_.size());
    PeerReader& reader = *readers_.emplace_back(std::make_unique<PeerReader>(PeerReaderLimits()));
    reader.Connected(0);
    for (std::size_t i = 0; i < count; ++i) {
      const Key key{"tile", number, static_cast<std::int64_t>(i)};
      const TicketClaims claims{kLinkSession, "reader", "", key.bytes()};
      reader.Fetch({i, key, bytes, MakeTicket(secret_, claims, kForeverUs), "reader"}, 0);
    }
    payload_ = Payload::Copy(std::string(bytes, 'x'));
  }
  // Returns how many payloads came.
  std::size_t Run() {
    for (;;) {
      for (std::size_t i = 0; i < readers_.size(); ++i) Say(i);
      for (const Key& key : holder_.TakeAsked()) holder_.Provide(key, payload_, now_us_);
      holder_.Tick(now_us_);
      for (const std::string& peer : holder_.TakeStalledPeers()) {
        readers_[std::stoul(peer)]->Fail("the holder has closed the connection");
      }
      while (auto out = holder_.TakeOutput()) {
        out->head.insert(out->head.end(), out->body.begin(), out->body.end());
        link_.emplace_back(std::stoul(out->peer), std::move(out->head));
      }
      if (link_.empty()) return came_;
      Transport();
    }
  }

 private:
  static constexpr std::uint64_t kLinkSession = 3;

  void Say(std::size_t number) {
    PeerReader& reader = *readers_[number];
    const std::string peer = std::to_string(number);
    if (reader.failed()) return holder_.PeerGone(peer);
    for (const auto& message : reader.TakeOutput()) holder_.Receive(peer, "", message, now_us_);
  }
  void Transport() {
    const auto [to, message] = std::move(link_.front());
    link_.pop_front();
    now_us_ += static_cast<std::int64_t>(message.size()) * us_per_byte_;
    for (const auto& reader : readers_) reader->Tick(now_us_ - 1);
    if (!readers_[to]->failed()) readers_[to]->Receive(message, now_us_);
    for (const FetchedPayload& fetched : readers_[to]->TakeFetched()) {
      came_ += fetched.payload.empty() ? 0 : 1;
    }
  }

  const std::string secret_ = std::string(kTicketSecretBytes, 's');
  const std::int64_t us_per_byte_;
  PeerHolder holder_;
  std::vector<std::unique_ptr<PeerReader>> readers_;
  Payload payload_;
  std::deque<std::pair<std::size_t, std::vector<std::byte>>> link_;
  std::int64_t now_us_ = 0;
  std::size_t came_ = 0;
};

// Returns how many of the payloads came.
std::size_t FetchOverLink(std::size_t count, std::uint64_t bytes, std::int64_t us_per_byte) {
  HoldersLink link(us_per_byte);
  link.Add(count, bytes);
  return link.Run();
}

TEST_F(PeerReaderTest, LargePayloadsComeOverALinkOf1Mbit) {
  constexpr std::int64_t kUsPerByte = 8;
  EXPECT_EQ(FetchOverLink(1, 20 << 20, kUsPerByte), 1u);
  EXPECT_EQ(FetchOverLink(12, 5 << 20, kUsPerByte), 12u) << "some wait for their turn";
  EXPECT_EQ(FetchOverLink(12, 70 << 10, kUsPerByte), 12u);
  EXPECT_EQ(FetchOverLink(2, 12 << 20, /*us_per_byte=*/10), 2u) << "parts of both in turn";
}

TEST_F(PeerReaderTest, LargePayloadsComeNotOverALinkThatIsTooSlow) {
  EXPECT_EQ(FetchOverLink(1, 2 << 20, /*us_per_byte=*/30), 0u);
}

// The first four readers could keep all that may be in flight for themselves for 16 s.
TEST_F(PeerReaderTest, ManyReadersShareALink) {
  HoldersLink link(/*us_per_byte=*/1,
                   {.in_flight_bytes_per_peer = 512 << 10, .in_flight_bytes = 2 << 20});
  for (int reader = 0; reader < 8; ++reader) link.Add(4, 1 << 20);
  EXPECT_EQ(link.Run(), 8u * 4);
}

TEST_F(PeerReaderTest, NoReaderFindsItsHolderTooBusy) {
  HoldersLink link(/*us_per_byte=*/1);
  for (int reader = 0; reader < 512; ++reader) link.Add(8, 1'000);
  EXPECT_EQ(link.Run(), 512u * 8);
}

TEST_F(PeerReaderTest, SaysThatATicketHasExpired) {
  for (const std::uint64_t id : {1, 2}) Fetch(id, 10);
  reader_->Receive(EncodePeer(RefusalFrame{1, FetchRefusal::kExpired}), now_us_);
  reader_->Receive(EncodePeer(RefusalFrame{2, FetchRefusal::kTicket}), now_us_);
  const auto fetched = reader_->TakeFetched();
  ASSERT_EQ(fetched.size(), 2u);
  EXPECT_TRUE(fetched[0].ticket_expired);
  EXPECT_FALSE(fetched[1].ticket_expired);
  EXPECT_FALSE(reader_->failed());
}

TEST_F(PeerReaderTest, WhatIsForgottenIsNotTold) {
  for (const std::uint64_t id : {1, 2, 3}) Fetch(id, 10);
  reader_->Forget(1);
  reader_->Forget(3);
  Receive(std::string(10, 'x'), 1, 0, 10);
  Receive(std::string(10, 'x'), 2, 0, 10);
  const auto fetched = reader_->TakeFetched();
  ASSERT_EQ(fetched.size(), 1u);
  EXPECT_EQ(fetched[0].id, 2u);
  EXPECT_TRUE(reader_->idle());
}

TEST_F(PeerReaderTest, WhatIsForgottenMakesRoomForTheNext) {
  for (const std::uint64_t id : {1, 2, 3, 4}) Fetch(id, 10);
  Said();
  reader_->Forget(1);
  reader_->Forget(2);
  now_us_ += 10 * kReadSecondUs;
  reader_->Tick(now_us_);
  EXPECT_EQ(reader_->NextDeadlineUs(), now_us_ + kReadConnectUs);
  Receive(std::string(10, 'x'), 3, 0, 10);
  Receive(std::string(10, 'x'), 4, 0, 10);
  EXPECT_EQ(reader_->TakeFetched().size(), 2u);
}

TEST_F(PeerReaderTest, MemoryIsTakenWhenThePayloadComes) {
  // An impossible size. Asking for it must do no harm before a piece of it arrives.
  Fetch(1, UINT64_MAX / 2);
  EXPECT_TRUE(reader_->TakeFetched().empty());
  reader_->Fail("over");
  EXPECT_EQ(reader_->TakeFetched().at(0).why, "over");
}

}  // namespace
}  // namespace tuplespace
