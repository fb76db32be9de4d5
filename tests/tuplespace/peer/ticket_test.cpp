// Tickets: the conditions for a good one, and that all others are rejected.
#include "ticket.h"

#include <gtest/gtest.h>

#include <string>

namespace tuplespace {
namespace {

constexpr std::int64_t kExpiresUs = 1'000'000;

class TicketTest : public ::testing::Test {
 protected:
  TicketVerdict Check(const std::string& ticket, const TicketClaims& claims,
                      std::int64_t now_us = kExpiresUs - 1) const {
    return CheckTicket(secret_, ticket, claims, now_us);
  }
  const std::string secret_ = MakeTicketSecret();
  const TicketClaims claims_{7, "w/reader", "public key", "key"};
  const std::string ticket_ = MakeTicket(secret_, claims_, kExpiresUs);
};

TEST_F(TicketTest, IsGoodUntilItExpires) {
  EXPECT_EQ(ticket_.size(), kTicketBytes);
  EXPECT_EQ(Check(ticket_, claims_, 0), TicketVerdict::kGood);
  EXPECT_EQ(Check(ticket_, claims_, kExpiresUs - 1), TicketVerdict::kGood);
  EXPECT_EQ(Check(ticket_, claims_, kExpiresUs), TicketVerdict::kExpired);
  // Just after the broker's start, the holder's clock may be slightly behind the broker's.
  EXPECT_EQ(Check(ticket_, claims_, -5), TicketVerdict::kGood);
}

TEST_F(TicketTest, EveryAlteredBitMakesItForged) {
  for (std::size_t bit = 0; bit < 8 * kTicketBytes; ++bit) {
    std::string altered = ticket_;
    altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(Check(altered, claims_), TicketVerdict::kForged) << bit;
  }
  EXPECT_EQ(Check(ticket_.substr(1), claims_), TicketVerdict::kForged);
  EXPECT_EQ(Check(ticket_ + "x", claims_), TicketVerdict::kForged);
  EXPECT_EQ(Check("", claims_), TicketVerdict::kForged);
}

TEST_F(TicketTest, AllowsOneReaderOneKeyAndOneSession) {
  EXPECT_EQ(Check(ticket_, {8, "w/reader", "public key", "key"}), TicketVerdict::kForged);
  EXPECT_EQ(Check(ticket_, {7, "w/thief", "public key", "key"}), TicketVerdict::kForged);
  EXPECT_EQ(Check(ticket_, {7, "w/reader", "another key", "key"}), TicketVerdict::kForged);
  EXPECT_EQ(Check(ticket_, {7, "w/reader", "public key", "kez"}), TicketVerdict::kForged);
}

TEST_F(TicketTest, BytesCannotMoveFromOneClaimToAnother) {
  EXPECT_EQ(Check(ticket_, {7, "w/readerp", "ublic key", "key"}), TicketVerdict::kForged);
  EXPECT_EQ(Check(ticket_, {7, "w/reader", "public keyk", "ey"}), TicketVerdict::kForged);
}

TEST_F(TicketTest, CountsUnderOneSecret) {
  const std::string other = MakeTicketSecret();
  EXPECT_NE(other, secret_);
  EXPECT_EQ(other.size(), kTicketSecretBytes);
  EXPECT_EQ(CheckTicket(other, ticket_, claims_, 0), TicketVerdict::kForged);
}

}  // namespace
}  // namespace tuplespace
