// What one client may use of a space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "space_driver.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::GetOf;
using ::testing::HasSubstr;
using testing::Making;
using testing::Plain;
using testing::SpaceDriver;
using testing::Task;

// The client "small" has small limits.
class QuotaTest : public ::testing::Test {
 protected:
  QuotaTest() {
    d.Join("m");
    ClientLimits limits;
    limits.own_tuples = 3;
    limits.own_payload_bytes = 10;
    limits.open_requests = 2;
    limits.open_patterns = 4;
    limits.leases = 2;
    limits.per_request = 5;
    limits.leaves_nothing = true;
    d.Step(ClientJoined{"small", "key", limits});
  }
  RequestError Refused(RequestBody body) { return d.Ask<RequestError>("small", std::move(body)); }

  SpaceDriver d;
};

TEST_F(QuotaTest, TuplesAndBytesOfAClientAreLimited) {
  for (int i = 0; i < 3; ++i) d.PutOne("small", Plain(Key{"k", i}, "12"));
  const RequestError full = Refused(Put{{Plain(Key{"k", 9})}});
  EXPECT_EQ(full.code, ErrorCode::kBusy);
  EXPECT_THAT(full.text, HasSubstr("own_tuples"));
  d.Ask<RetireReply>("small", Retire{Every("k"), false});
  EXPECT_THAT(Refused(Put{{Plain(Key{"k", 1}, "12345678901")}}).text,
              HasSubstr("own_payload_bytes"));
  EXPECT_EQ(Refused(Put{{Plain(Key{"k", 1}, "12345678901")}}).code, ErrorCode::kTooLarge);
  EXPECT_EQ(d.PutOne("small", Plain(Key{"k", 1}, "1234567890")), PutStatus::kStored);
  EXPECT_EQ(Refused(Put{{Plain(Key{"k", 2}, "1")}}).code, ErrorCode::kBusy);
  EXPECT_EQ(d.PutOne("m", Plain(Key{"m", 1}, std::string(1000, 'x'))), PutStatus::kStored)
      << "others have their own";
}

// Its bytes would come later, beside the quota.
TEST_F(QuotaTest, WhatItPutsHasItsBytes) {
  Tuple stays = Plain(Key{"k", 1});
  stays.resident_bytes = 1000;
  EXPECT_THAT(Refused(Put{{stays}}).text, HasSubstr("not ephemeral"));
  EXPECT_EQ(d.space.GetStatistics().tuples, 0u);
}

TEST_F(QuotaTest, WhatItPutGoesWithIt) {
  d.PutOne("small", Plain(Key{"k", 1}));
  d.Lose("small");
  EXPECT_EQ(d.space.GetStatistics().tuples, 0u);
}

TEST_F(QuotaTest, ResultsOfTasksAreTheTasks) {
  std::vector<Key> keys;
  std::vector<Tuple> results;
  for (int i = 0; i < 5; ++i) {
    keys.push_back(Key{"r", i});
    results.push_back(Plain(keys.back(), "12345"));
  }
  results[0].ephemeral = true;  // whatever it says
  d.PutOne("m", Making(Task(Key{"t", 1}), keys));
  EXPECT_EQ(d.Done("small", d.TakeNow("small", Every("t")), results).lease, LeaseStatus::kOk);
  d.Lose("small");
  EXPECT_EQ(d.CountOf("m", Every("r")), 5u);
}

TEST_F(QuotaTest, OpenRequestsAndPatternsAreLimited) {
  Read read{{Pattern::Of(Key{"x", 1}), Pattern::Of(Key{"x", 2}), Pattern::Of(Key{"x", 3})}};
  read.wait_us = kForeverUs;
  const RequestId first = d.Send("small", read);
  EXPECT_THAT(Refused(read).text, HasSubstr("open_patterns"));
  read.patterns.resize(1);
  const RequestId second = d.Send("small", read);
  EXPECT_THAT(Refused(read).text, HasSubstr("open_requests"));
  EXPECT_EQ(Refused(GetOf(Every("t"))).code, ErrorCode::kBusy);
  d.Ask<Ok>("small", Cancel{first});
  d.Ask<Ok>("small", Cancel{second});
  d.Send("small", read);
  EXPECT_EQ(d.space.GetStatistics().open_reads, 1u);
}

TEST_F(QuotaTest, OpenGetsAreLimited) {
  ClientLimits limits;
  limits.open_gets = 2;
  d.Step(ClientJoined{"k/1", "k", limits});
  const RequestId first = d.Send("k/1", GetOf(Every("t")));
  d.Send("k/1", GetOf(Every("t")));
  const RequestError error = d.Ask<RequestError>("k/1", GetOf(Every("t")));
  EXPECT_EQ(error.code, ErrorCode::kBusy);
  EXPECT_THAT(error.text, HasSubstr("open_gets of this client's role: 2"));
  Read read{{Every("none")}};
  read.wait_us = kForeverUs;
  EXPECT_FALSE(d.ReplyTo("k/1", d.Send("k/1", read))) << "other requests do not count";
  EXPECT_TRUE(d.GetNow("k/1", Every("t")).empty()) << "nor does a Get that does not wait";
  d.Step(Incoming{"k/1", {first, GetOf(Every("t"))}});
  EXPECT_FALSE(d.ReplyTo("k/1", first)) << "a new offer takes the place of the earlier one";
  d.Ask<Ok>("k/1", Cancel{first});
  EXPECT_FALSE(d.ReplyTo("k/1", d.Send("k/1", GetOf(Every("t")))));
}

TEST_F(QuotaTest, LeasesAreLimited) {
  for (int i = 0; i < 4; ++i) d.PutOne("m", Task(Key{"t", i}));
  const auto grants = d.GetNow("small", Every("t"), UINT64_MAX, 4);
  ASSERT_EQ(grants.size(), 2u);
  EXPECT_THAT(Refused(GetOf(Every("t"))).text, HasSubstr("leases"));
  d.Done("small", {grants[0].key, grants[0].fence});
  EXPECT_EQ(d.GetNow("small", Every("t"), UINT64_MAX, 4).size(), 1u);
}

TEST_F(QuotaTest, ARequestIsLimited) {
  std::vector<Tuple> tuples;
  for (int i = 0; i < 6; ++i) tuples.push_back(Plain(Key{"k", i}));
  EXPECT_EQ(Refused(Put{tuples}).code, ErrorCode::kTooLarge);
  EXPECT_EQ(Refused(Complete{{Key{"t", 1}, 1}, tuples}).code, ErrorCode::kTooLarge);
  EXPECT_EQ(Refused(Read{std::vector<Pattern>(6, Every("k"))}).code, ErrorCode::kTooLarge);
  EXPECT_EQ(Refused(Hold{std::vector<Key>(6, Key{"k", 1}), {}}).code, ErrorCode::kTooLarge);
  Get get = GetOf(Every("t"));
  get.max_count = 6;
  EXPECT_EQ(Refused(get).code, ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace tuplespace
