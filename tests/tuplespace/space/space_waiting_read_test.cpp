// What waiting Reads may use: room for tuples, memory, and time of other clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "space_resident.h"

namespace tuplespace {
namespace {

using testing::Every;
using ::testing::HasSubstr;
using testing::Plain;
using testing::SpaceDriver;

Read Waiting(std::vector<Pattern> patterns, bool all) {
  Read read{std::move(patterns)};
  read.all = all;
  read.wait_us = kForeverUs;
  return read;
}

// A Read for any one of `count` whole keys that nobody has put.
Read AnyOf(const std::string& kind, int count) {
  std::vector<Pattern> patterns;
  for (int i = 0; i < count; ++i) patterns.push_back(Pattern::Of(Key{kind, i}));
  return Waiting(std::move(patterns), /*all=*/false);
}

class WaitingReadTest : public ::testing::Test {
 protected:
  // Joins two clients of the key "k", two of "other", and a manager.
  void Begin(SpaceLimits limits, ClientLimits of_client) {
    d = std::make_unique<SpaceDriver>(limits);
    d->Join("m");
    for (const char* id : {"k/1", "k/2"}) d->Step(ClientJoined{id, "k", of_client});
    for (const char* id : {"other/1", "other/2"}) d->Step(ClientJoined{id, "other", of_client});
  }
  bool Waits(const ClientId& client, const Read& read) {
    return !d->ReplyTo(client, d->Send(client, read));
  }
  RequestError Refused(const ClientId& client, const Read& read) {
    return d->Ask<RequestError>(client, read);
  }
  std::unique_ptr<SpaceDriver> d;
};

TEST_F(WaitingReadTest, KeysThatAreWatchedLeaveRoomForTuples) {
  SpaceLimits limits;
  limits.tuples = 12;
  limits.watched_keys = 6;
  ClientLimits of_client;
  of_client.watched_keys_of_key = 4;
  Begin(limits, of_client);
  const RequestId first = d->Send("k/1", AnyOf("a", 3));
  EXPECT_EQ(Refused("k/2", AnyOf("b", 2)).code, ErrorCode::kBusy);
  EXPECT_THAT(Refused("k/2", AnyOf("b", 2)).text, HasSubstr("limits.watched_keys_of_key: 2 more"));
  EXPECT_EQ(Refused("k/2", AnyOf("b", 5)).code, ErrorCode::kTooLarge) << "it can never wait";
  EXPECT_TRUE(Waits("k/2", AnyOf("b", 1)));
  EXPECT_TRUE(Waits("other/1", AnyOf("c", 2))) << "another key has its own";
  EXPECT_THAT(Refused("other/2", AnyOf("d", 1)).text, HasSubstr("limits.watched_keys: 1 more"));
  Put put;
  for (int i = 0; i < 6; ++i) put.tuples.push_back(Plain(Key{"tuple", i}));
  EXPECT_EQ(d->Ask<PutReply>("m", put).status, std::vector(6, PutStatus::kStored));
  // A Read that ends, in whatever way, frees its keys.
  d->Ask<Ok>("k/1", Cancel{first});
  EXPECT_TRUE(Waits("k/2", AnyOf("b", 3)));
  d->Lose("k/2");
  EXPECT_TRUE(Waits("k/1", AnyOf("b", 4)));
}

TEST_F(WaitingReadTest, OneThatWantsAllWatchesOneKeyAfterTheOther) {
  ClientLimits of_client;
  of_client.watched_keys_of_key = 2;
  Begin({}, of_client);
  Read all = AnyOf("a", 100);
  all.all = true;
  EXPECT_TRUE(Waits("k/1", all));
  EXPECT_TRUE(Waits("k/2", all));
  EXPECT_EQ(Refused("k/1", all).code, ErrorCode::kBusy);
}

TEST_F(WaitingReadTest, TheirMemoryIsLimited) {
  const Key long_key{std::string(250, 'j'), 1, std::string(250, 'k'), std::string(250, 'l')};
  const std::vector<Pattern> patterns(20, Pattern::Of(long_key));  // the same pattern each time
  ClientLimits of_client;
  of_client.open_pattern_bytes = 40'000;
  of_client.open_pattern_bytes_of_key = 60'000;
  Begin({}, of_client);
  EXPECT_TRUE(Waits("k/1", Waiting(patterns, true)));
  EXPECT_TRUE(Waits("k/1", Waiting(patterns, true)));
  EXPECT_EQ(Refused("k/1", Waiting(patterns, true)).code, ErrorCode::kBusy);
  EXPECT_THAT(Refused("k/1", Waiting(patterns, true)).text,
              HasSubstr("limits.open_pattern_bytes:"));
  EXPECT_TRUE(Waits("k/2", Waiting(patterns, true)));
  EXPECT_THAT(Refused("k/2", Waiting(patterns, true)).text,
              HasSubstr("limits.open_pattern_bytes_of_key:"));
  EXPECT_TRUE(Waits("other/1", Waiting(patterns, true)));
  d->Lose("k/1");
  EXPECT_TRUE(Waits("k/2", Waiting(patterns, true)));
}

TEST_F(WaitingReadTest, AKeyThatIsWatchedCountsWithItsRecord) {
  ClientLimits of_client;
  of_client.open_pattern_bytes = 40'000;
  Begin({}, of_client);
  EXPECT_TRUE(Waits("k/1", AnyOf("a", 40)));
  EXPECT_THAT(Refused("k/1", AnyOf("b", 40)).text, HasSubstr("limits.open_pattern_bytes:"));
}

TEST_F(WaitingReadTest, NobodyTakesThePatternsOfOthers) {
  SpaceLimits limits;
  limits.read_patterns = 8;
  ClientLimits of_client;
  of_client.read_patterns_of_key = 3;
  Begin(limits, of_client);
  const auto patterns = [](int count) {
    std::vector<Pattern> some;
    for (int i = 0; i < count; ++i) some.push_back(testing::UpTo("none", i));
    return some;
  };
  EXPECT_EQ(Refused("k/1", Waiting(patterns(8), false)).code, ErrorCode::kTooLarge);
  EXPECT_TRUE(Waits("k/1", Waiting(patterns(2), false)));
  // Patterns that the Read does not watch yet count as well, because the space checks them
  // repeatedly.
  EXPECT_THAT(Refused("k/2", Waiting(patterns(2), true)).text,
              HasSubstr("limits.read_patterns_of_key: 2 more with 2 there, at most 3"));
  EXPECT_TRUE(Waits("k/2", AnyOf("whole keys", 10)));
  EXPECT_TRUE(Waits("other/1", Waiting({Every("x")}, true)));
  EXPECT_TRUE(Waits("m", Waiting({Every("y")}, true)));
}

// ---- how much they make the space look at -------------------------------------------------------

TEST_F(WaitingReadTest, TuplesThatComeAndGoAreNotExaminedForEver) {
  constexpr int kPatterns = 1000;
  Begin({}, {});
  const Pattern first = Pattern::Of(Key{"p", 0});
  const Pattern last = Pattern::Of(Key{"p", 2});
  d->PutOne("k/1", Plain(Key{"p", 1}));
  std::vector<Pattern> patterns(kPatterns, Pattern::Of(Key{"p", 1}));
  patterns.front() = first;
  patterns.back() = last;
  const RequestId id = d->Send("k/1", Waiting(patterns, true));
  const std::uint64_t before = d->space.ExaminedByReads();
  std::optional<ReplyBody> reply;
  for (int i = 0; i < 100; ++i) {
    for (const int key : {0, 2}) {
      d->PutOne("k/1", Plain(Key{"p", key}));
      d->Ask<RetireReply>("k/1", Retire{Pattern::Of(Key{"p", key}), false});
    }
    if (!reply) reply = d->ReplyTo("k/1", id);
  }
  const std::uint64_t looks = d->space.ExaminedByReads() - before;
  EXPECT_LE(looks, 20u * kPatterns) << "some looks for each pattern that it sent, not for each put";
  ASSERT_TRUE(reply) << "it still waits";
  const auto& error = std::get<RequestError>(*reply);
  EXPECT_EQ(error.code, ErrorCode::kBusy) << "it may send it again";
  EXPECT_THAT(error.text, HasSubstr("limits.examined_without_match"));
  EXPECT_EQ(d->space.GetStatistics().open_reads, 0u);
}

TEST_F(WaitingReadTest, TuplesThatComeOneByOneAreExaminedOnce) {
  constexpr int kPatterns = 1000;
  Begin({}, {});
  Read read = AnyOf("a", kPatterns);
  read.all = true;
  const RequestId id = d->Send("k/1", read);
  const std::uint64_t before = d->space.ExaminedByReads();
  // The worst order: each new tuple matches the watched pattern.
  for (int i = 0; i < kPatterns; ++i) d->PutOne("m", Plain(Key{"a", i}));
  EXPECT_EQ(d->Expect<Found>("k/1", id).tuples.size(), std::size_t{kPatterns});
  EXPECT_LE(d->space.ExaminedByReads() - before, 4u * kPatterns);
}

using WaitingResidentTest = testing::ResidentTest;

TEST_F(WaitingResidentTest, OneOfManyThatStaysElsewhereIsExaminedAlone) {
  constexpr int kPatterns = 100;
  const Read read = AnyOf("tile", kPatterns);
  const RequestId id = d->Send("owner", read);
  const std::uint64_t before = d->space.ExaminedByReads();
  for (int i = 0; i < kPatterns; ++i) Make(Key{"tile", i}, i);
  EXPECT_FALSE(d->ReplyTo("owner", id)) << "no payload is there yet";
  EXPECT_EQ(d->space.ExaminedByReads() - before, std::uint64_t{kPatterns});
  EXPECT_EQ(SupplyOne("gpu", Plain(Key{"tile", 7}, "12345")), PutStatus::kStored);
  const Found found = d->Expect<Found>("owner", id);
  ASSERT_EQ(found.tuples.size(), 1u);
  EXPECT_EQ(found.tuples[0].key, (Key{"tile", 7}));
}

}  // namespace
}  // namespace tuplespace
