// DirectReads, driven step by step: what it asks for, fetches, and finally reads through the
// broker.
#include "direct_reads.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace tuplespace {
namespace {

class DirectReadsTest : public ::testing::Test {
 protected:
  static FoundTuple Placed(std::int64_t number) {
    FoundTuple found = Named(number);
    found.resident = true;
    found.payload_bytes = 10;
    found.place = std::make_shared<const Place>();
    return found;
  }
  static FoundTuple Named(std::int64_t number) {
    FoundTuple found;
    found.key = Key{"tile", number};
    return found;
  }
  static FoundTuple Whole(std::int64_t number) {
    FoundTuple found = Named(number);
    found.payload = Payload::Copy("payload");
    return found;
  }
  void Begin(std::vector<FoundTuple> wanted) {
    reads_.Begin(std::move(wanted), 1'000, /*direct=*/true,
                 [this](ReplyBody&& reply) { answers_.push_back(std::move(reply)); });
  }
  void Answer(std::vector<FoundTuple> tuples, bool timed_out = false) {
    const Client::ReplyHandler on_reply = std::move(submitted_.front().second);
    submitted_.erase(submitted_.begin());
    on_reply(Found{std::move(tuples), timed_out, false});
  }
  std::size_t Payloads() const {
    std::size_t payloads = 0;
    for (const FoundTuple& tuple : std::get<Found>(answers_.at(0)).tuples) {
      payloads += tuple.payload.empty() ? 0 : 1;
    }
    return payloads;
  }

  std::int64_t now_us_ = 500;
  bool full_ = false;  // whether the queue of unanswered requests is full
  std::vector<std::pair<Read, Client::ReplyHandler>> submitted_;
  std::map<std::uint64_t, Key> fetching_;
  std::vector<std::uint64_t> forgotten_;
  std::vector<ReplyBody> answers_;
  DirectReads reads_{
      {.submit =
           [this](Read read, Client::ReplyHandler on_reply) {
             if (full_) throw SpaceError(ErrorCode::kBusy, "full");
             submitted_.emplace_back(std::move(read), std::move(on_reply));
           },
       .read_again =
           [this](Read read, Client::ReplyHandler on_reply) {
             submitted_.emplace_back(std::move(read), std::move(on_reply));
           },
       .fetch = [this](std::uint64_t id, const FoundTuple& found) { fetching_[id] = found.key; },
       .forget = [this](std::uint64_t id) { forgotten_.push_back(id); },
       .now_us = [this] { return now_us_; }}};
};

TEST_F(DirectReadsTest, KnownPlacesAreNotAskedFor) {
  Begin({Placed(1), Placed(2)});
  EXPECT_TRUE(submitted_.empty());
  ASSERT_EQ(fetching_.size(), 2u);
  reads_.OnFetched(1, Payload::Copy("a"));
  EXPECT_TRUE(answers_.empty());
  reads_.OnFetched(2, Payload::Copy("b"));
  EXPECT_EQ(Payloads(), 2u);
  EXPECT_TRUE(reads_.idle());
}

TEST_F(DirectReadsTest, WhatCannotBeFetchedIsReadThroughTheBroker) {
  Begin({Placed(1), Placed(2), Named(3)});
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_TRUE(submitted_[0].first.direct);
  EXPECT_EQ(submitted_[0].first.wait_us, 1'000);
  Answer({Placed(3)});
  reads_.OnFetched(1, {});
  reads_.OnFetched(3, {});
  EXPECT_TRUE(submitted_.empty()) << "one more is under way";
  now_us_ += 300;
  reads_.OnFetched(2, Payload::Copy("b"));
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_FALSE(submitted_[0].first.direct);
  EXPECT_EQ(submitted_[0].first.wait_us, 700);
  EXPECT_EQ(submitted_[0].first.patterns.size(), 2u);
  Answer({Whole(1), Whole(3)});
  EXPECT_EQ(Payloads(), 3u);
}

TEST_F(DirectReadsTest, APlaceThatNobodyKnowsIsReadThroughTheBroker) {
  Begin({Named(1)});
  FoundTuple unplaced = Placed(1);
  unplaced.place = nullptr;
  Answer({unplaced});
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_FALSE(submitted_[0].first.direct);
  Answer({Whole(1)});
  EXPECT_EQ(Payloads(), 1u);
}

TEST_F(DirectReadsTest, WhatCannotBeSubmittedHasNotBegun) {
  full_ = true;
  EXPECT_THROW(Begin({Placed(1), Named(2)}), SpaceError);
  EXPECT_TRUE(reads_.idle());
  EXPECT_TRUE(fetching_.empty());
}

TEST_F(DirectReadsTest, WhatHasBegunIsReadThroughTheBrokerHoweverMuchIsUnderWay) {
  Begin({Placed(1)});
  full_ = true;
  reads_.OnFetched(1, {});
  ASSERT_EQ(submitted_.size(), 1u);
  Answer({Whole(1)});
  EXPECT_EQ(Payloads(), 1u);
}

// Its fetch has waited longer for its turn than the ticket lasts.
TEST_F(DirectReadsTest, AnExpiredTicketIsReplaced) {
  Begin({Placed(1), Placed(2)});
  full_ = true;
  now_us_ += 300;
  reads_.OnFetched(2, {}, /*ticket_expired=*/true);
  ASSERT_EQ(submitted_.size(), 1u) << "at once";
  EXPECT_TRUE(submitted_[0].first.direct);
  EXPECT_EQ(submitted_[0].first.wait_us, 700);
  EXPECT_EQ(submitted_[0].first.patterns, std::vector<Pattern>{Pattern::Of(Key{"tile", 2})});
  reads_.OnFetched(1, Payload::Copy("a"));
  EXPECT_TRUE(answers_.empty()) << "one is under way";
  Answer({Placed(2)});
  ASSERT_TRUE(fetching_.contains(3));
  EXPECT_EQ(fetching_.at(3), (Key{"tile", 2}));
  reads_.OnFetched(3, Payload::Copy("b"));
  EXPECT_EQ(Payloads(), 2u);
  EXPECT_TRUE(submitted_.empty());
}

// A holder may say it of every ticket.
TEST_F(DirectReadsTest, AnExpiredTicketIsReplacedOnce) {
  Begin({Named(1)});
  Answer({Placed(1)});
  EXPECT_FALSE(reads_.OnFetched(1, {}, /*ticket_expired=*/true)) << "it may still come directly";
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_TRUE(submitted_[0].first.direct);
  Answer({Placed(1)});
  EXPECT_TRUE(reads_.OnFetched(2, {}, /*ticket_expired=*/true));
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_FALSE(submitted_[0].first.direct);
  Answer({Whole(1)});
  EXPECT_EQ(Payloads(), 1u);
}

// The maker has left, or what it had is in the space now.
TEST_F(DirectReadsTest, InPlaceOfAnotherTicketThePayloadMayCome) {
  Begin({Placed(1), Placed(2)});
  reads_.OnFetched(1, {}, /*ticket_expired=*/true);
  reads_.OnFetched(2, {}, /*ticket_expired=*/true);
  ASSERT_EQ(submitted_.size(), 2u);
  Answer({Whole(1)});
  FoundTuple unplaced = Placed(2);
  unplaced.place = nullptr;
  Answer({unplaced});
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_FALSE(submitted_[0].first.direct);
  Answer({Whole(2)});
  EXPECT_EQ(Payloads(), 2u);
}

// A holder may send other bytes than it has supplied.
TEST_F(DirectReadsTest, BytesThatAreNotThoseOfTheSpaceAreReadThroughTheBroker) {
  const auto hashed = [](const char* text) {
    Payload payload = Payload::Copy(text);
    const PayloadHash hash = HashOf(payload.bytes());
    return std::move(payload).WithHash(hash);
  };
  FoundTuple honest = Placed(1), forged = Placed(2);
  honest.hash = forged.hash = hashed("payload").hash();
  Begin({honest, forged});
  reads_.OnFetched(1, hashed("payload"));
  reads_.OnFetched(2, hashed("another"));
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_FALSE(submitted_[0].first.direct);
  EXPECT_EQ(submitted_[0].first.patterns.size(), 1u);
  Answer({Whole(2)});
  EXPECT_EQ(Payloads(), 2u);
  EXPECT_EQ(std::get<Found>(answers_.at(0)).tuples.at(1).payload.text(), "payload");
}

// It would take memory that nobody has set aside for it.
TEST_F(DirectReadsTest, APayloadOfAnotherSizeIsNotRead) {
  FoundTuple wanted = Named(1), other = Named(2);
  wanted.payload_bytes = other.payload_bytes = 10;
  Begin({wanted, other});
  FoundTuple large = Placed(1);
  large.payload_bytes = std::uint64_t{1} << 30;
  Answer({large, Placed(2)});
  ASSERT_EQ(fetching_.size(), 1u);
  EXPECT_EQ(fetching_.begin()->second, other.key);
  reads_.OnFetched(fetching_.begin()->first, Payload::Copy("b"));
  EXPECT_TRUE(submitted_.empty()) << "nor through the broker";
  EXPECT_EQ(Payloads(), 1u);
  EXPECT_EQ(std::get<Found>(answers_.at(0)).tuples.at(0).payload_bytes, large.payload_bytes);
}

TEST_F(DirectReadsTest, ItIsReadThroughTheBrokerOnce) {
  Begin({Placed(1)});
  reads_.OnFetched(1, {});
  FoundTuple own = Placed(1);  // its bytes stay with this client
  own.place = nullptr;
  Answer({own});
  EXPECT_EQ(Payloads(), 0u);
  EXPECT_TRUE(reads_.idle());
}

TEST_F(DirectReadsTest, WhenOnePartComesTooLateTheOthersAreForgotten) {
  Begin({Placed(1), Named(2)});
  Answer({}, /*timed_out=*/true);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(std::get<Found>(answers_[0]).timed_out);
  EXPECT_EQ(forgotten_, std::vector<std::uint64_t>{1});
  reads_.OnFetched(1, Payload::Copy("late"));
  EXPECT_EQ(answers_.size(), 1u);
}

}  // namespace
}  // namespace tuplespace
