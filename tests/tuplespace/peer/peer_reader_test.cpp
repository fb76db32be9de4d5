// A reader, driven step by step: whole payloads, damage, lies, stalls.
#include "peer_reader.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace tuplespace {
namespace {

const Key kReadTile{"tile", 1};

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
  const std::string payload(3'000, 'p');
  Fetch(7, payload.size());
  EXPECT_EQ(Said(), std::vector<std::uint64_t>{7});
  Receive(payload, 7, 0, 2'000);
  EXPECT_EQ(Said(), std::vector<std::uint64_t>{2'000});
  EXPECT_TRUE(reader_->TakeFetched().empty());
  Receive(payload, 7, 2'000, 1'000);
  EXPECT_EQ(Said(), std::vector<std::uint64_t>{3'000});
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

TEST_F(PeerReaderTest, WhoSendsAnotherSizeOrOrderFails) {
  for (const int lie : {0, 1, 2}) {
    reader_ = std::make_unique<PeerReader>(PeerReaderLimits());
    Fetch(1, 3'000);
    if (lie == 0) Receive(std::string(4'000, 'x'), 1, 0, 1'000);
    if (lie == 1) Receive(std::string(3'000, 'x'), 1, 1'000, 1'000);
    if (lie == 2) {
      Receive(std::string(3'000, 'x'), 1, 0, 1'000);
      Receive(std::string(3'000, 'x'), 1, 1'000, 1'000, PayloadHash{3, 4});
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
  Fetch(1, 3'000);
  now_us_ += 2'900'000;
  Receive(std::string(3'000, 'x'), 1, 0, 1'000);
  EXPECT_EQ(reader_->NextDeadlineUs(), now_us_ + 5'000'000);
  now_us_ += 5'000'000;
  reader_->Tick(now_us_);
  EXPECT_EQ(reader_->TakeFetched().size(), 1u);
  EXPECT_TRUE(reader_->failed());
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

TEST_F(PeerReaderTest, MemoryIsTakenWhenThePayloadComes) {
  // An impossible size. Asking for it must do no harm before a piece of it arrives.
  Fetch(1, UINT64_MAX / 2);
  EXPECT_TRUE(reader_->TakeFetched().empty());
  reader_->Fail("over");
  EXPECT_EQ(reader_->TakeFetched().at(0).why, "over");
}

}  // namespace
}  // namespace tuplespace
