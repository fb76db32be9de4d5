// The messages between a reader and a holder as bytes.
#include "peer_frames.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace tuplespace {
namespace {

using Bytes = std::vector<std::byte>;

FetchFrame AnyFetch() {
  return {77, std::string(kTicketBytes, 't'), 1 << 20, "w/reader", Key{"tile", 3}};
}

Bytes PieceMessage(const PieceFrame& piece) {
  Bytes message = EncodePeerHead(piece);
  message.insert(message.end(), piece.bytes.begin(), piece.bytes.end());
  return message;
}

TEST(PeerFrames, WhatIsSentIsReceived) {
  const auto fetch = DecodeToHolder(EncodePeer(AnyFetch()));
  ASSERT_TRUE(fetch);
  const auto& got = std::get<FetchFrame>(*fetch);
  EXPECT_EQ(got.transfer, 77u);
  EXPECT_EQ(got.ticket, AnyFetch().ticket);
  EXPECT_EQ(got.window_bytes, 1u << 20);
  EXPECT_EQ(got.reader, "w/reader");
  EXPECT_EQ(got.key, AnyFetch().key);
  const auto more = DecodeToHolder(EncodePeer(MoreFrame{5, 1ull << 40}));
  EXPECT_EQ(std::get<MoreFrame>(*more).received_bytes, 1ull << 40);
  EXPECT_EQ(std::get<StopFrame>(*DecodeToHolder(EncodePeer(StopFrame{6}))).transfer, 6u);
  const auto refusal = DecodeToReader(EncodePeer(RefusalFrame{9, FetchRefusal::kGone}));
  EXPECT_EQ(std::get<RefusalFrame>(*refusal).why, FetchRefusal::kGone);
  const Bytes bytes(1000, std::byte{3});
  const Bytes message = PieceMessage({8, 5000, 4000, {1, 2}, bytes});
  const auto piece = std::get<PieceFrame>(*DecodeToReader(message));
  EXPECT_EQ(piece.total_bytes, 5000u);
  EXPECT_EQ(piece.offset, 4000u);
  EXPECT_EQ(piece.hash, (PayloadHash{1, 2}));
  EXPECT_EQ(piece.bytes.data(), message.data() + kPieceHeadBytes);
  EXPECT_EQ(piece.bytes.size(), 1000u);
}

TEST(PeerFrames, TheLargestKeyFits) {
  FetchFrame fetch = AnyFetch();
  const std::string zeros(kMaxStringFieldBytes, '\0');
  fetch.key = Key{zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros,
                  zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros};
  fetch.reader = std::string(64, 'r');
  const Bytes message = EncodePeer(fetch);
  EXPECT_LE(message.size(), kMaxToHolderBytes);
  EXPECT_EQ(std::get<FetchFrame>(*DecodeToHolder(message)).key, fetch.key);
}

TEST(PeerFrames, EachLengthButTheRightOneIsRefused) {
  for (const Bytes& whole :
       {EncodePeer(AnyFetch()), EncodePeer(MoreFrame{1, 2}), EncodePeer(StopFrame{1})}) {
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      EXPECT_FALSE(DecodeToHolder(std::span(whole).first(bytes))) << bytes;
    }
    Bytes longer = whole;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(DecodeToHolder(longer));
  }
}

TEST(PeerFrames, MessagesOfTheOtherSideAreRefused) {
  EXPECT_FALSE(DecodeToReader(EncodePeer(StopFrame{1})));
  EXPECT_FALSE(DecodeToHolder(EncodePeer(RefusalFrame{1, FetchRefusal::kBusy})));
}

TEST(PeerFrames, APieceOutsideOfItsPayloadIsRefused) {
  const Bytes bytes(100, std::byte{1});
  EXPECT_TRUE(DecodeToReader(PieceMessage({1, 100, 0, {}, bytes})));
  EXPECT_FALSE(DecodeToReader(PieceMessage({1, 99, 0, {}, bytes})));
  EXPECT_FALSE(DecodeToReader(PieceMessage({1, 100, 1, {}, bytes})));
  EXPECT_FALSE(DecodeToReader(PieceMessage({1, 100, UINT64_MAX - 10, {}, bytes})));
  EXPECT_FALSE(DecodeToReader(PieceMessage({1, 100, 0, {}, {}}))) << "no bytes";
  const Bytes large(kMaxPieceBytes + 1, std::byte{1});
  EXPECT_FALSE(DecodeToReader(PieceMessage({1, 1 << 30, 0, {}, large})));
}

TEST(PeerFrames, AnotherMagicKindReasonOrKeyIsRefused) {
  Bytes fetch = EncodePeer(AnyFetch());
  fetch[0] = std::byte{'B'};
  EXPECT_FALSE(DecodeToHolder(fetch));
  fetch = EncodePeer(AnyFetch());
  fetch.back() = std::byte{0xff};
  fetch[fetch.size() - 9] = std::byte{9};  // no kind of field
  EXPECT_FALSE(DecodeToHolder(fetch));
  Bytes stop = EncodePeer(StopFrame{1});
  stop[4] = std::byte{0};
  EXPECT_FALSE(DecodeToHolder(stop));
  stop[4] = std::byte{3};
  stop[6] = std::byte{1};  // must be 0
  EXPECT_FALSE(DecodeToHolder(stop));
  Bytes refusal = EncodePeer(RefusalFrame{1, FetchRefusal::kBusy});
  refusal.back() = std::byte{5};
  EXPECT_FALSE(DecodeToReader(refusal));
  refusal.back() = std::byte{0};
  EXPECT_FALSE(DecodeToReader(refusal));
}

}  // namespace
}  // namespace tuplespace
