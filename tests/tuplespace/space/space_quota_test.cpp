// What one client may use of a space. No client has to wait for another one's large request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "space_driver.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::GetOf;
using ::testing::HasSubstr;
using testing::Plain;
using testing::SpaceDriver;
using testing::Task;
using testing::UpTo;

const Pattern kEverything{{FieldPattern::Any()}, true};

ClientLimits Small() {
  ClientLimits limits;
  limits.own_tuples = 3;
  limits.own_payload_bytes = 10;
  limits.open_requests = 2;
  limits.open_patterns = 4;
  limits.leases = 2;
  limits.per_request = 5;
  limits.leaves_nothing = true;
  return limits;
}

class QuotaTest : public ::testing::Test {
 protected:
  void Begin(SpaceLimits limits) {
    d = std::make_unique<SpaceDriver>(limits);
    d->Join("m");
    d->Step(ClientJoined{"small", "key", Small()});
  }
  void SetUp() override { Begin({}); }
  RequestError Refused(RequestBody body) { return d->Ask<RequestError>("small", std::move(body)); }
  std::unique_ptr<SpaceDriver> d;
};

TEST_F(QuotaTest, TuplesAndBytesOfAClientAreLimited) {
  for (int i = 0; i < 3; ++i) d->PutOne("small", Plain(Key{"k", i}, "12"));
  const RequestError full = Refused(Put{{Plain(Key{"k", 9})}});
  EXPECT_EQ(full.code, ErrorCode::kBusy);
  EXPECT_THAT(full.text, HasSubstr("own_tuples"));
  d->Ask<RetireReply>("small", Retire{Every("k"), false});
  EXPECT_THAT(Refused(Put{{Plain(Key{"k", 1}, "12345678901")}}).text,
              HasSubstr("own_payload_bytes"));
  EXPECT_EQ(Refused(Put{{Plain(Key{"k", 1}, "12345678901")}}).code, ErrorCode::kTooLarge);
  EXPECT_EQ(d->PutOne("small", Plain(Key{"k", 1}, "1234567890")), PutStatus::kStored);
  EXPECT_EQ(Refused(Put{{Plain(Key{"k", 2}, "1")}}).code, ErrorCode::kBusy);
  EXPECT_EQ(d->PutOne("m", Plain(Key{"m", 1}, std::string(1000, 'x'))), PutStatus::kStored)
      << "others have their own";
}

// Its bytes would come later, beside the quota.
TEST_F(QuotaTest, WhatItPutsHasItsBytes) {
  Tuple stays = Plain(Key{"k", 1});
  stays.resident_bytes = 1000;
  EXPECT_THAT(Refused(Put{{stays}}).text, HasSubstr("not ephemeral"));
  EXPECT_EQ(d->space.GetStatistics().tuples, 0u);
}

TEST_F(QuotaTest, WhatItPutGoesWithIt) {
  d->PutOne("small", Plain(Key{"k", 1}));
  d->Lose("small");
  EXPECT_EQ(d->space.GetStatistics().tuples, 0u);
}

TEST_F(QuotaTest, ResultsOfTasksAreTheTasks) {
  std::vector<Key> keys;
  std::vector<Tuple> results;
  for (int i = 0; i < 5; ++i) {
    keys.push_back(Key{"r", i});
    results.push_back(Plain(keys.back(), "12345"));
  }
  results[0].ephemeral = true;  // whatever it says
  d->PutOne("m", testing::Making(Task(Key{"t", 1}), keys));
  EXPECT_EQ(d->Done("small", d->TakeNow("small", Every("t")), results).lease, LeaseStatus::kOk);
  d->Lose("small");
  EXPECT_EQ(d->CountOf("m", Every("r")), 5u);
}

TEST_F(QuotaTest, OpenRequestsAndPatternsAreLimited) {
  Read read{{Pattern::Of(Key{"x", 1}), Pattern::Of(Key{"x", 2}), Pattern::Of(Key{"x", 3})}};
  read.wait_us = kForeverUs;
  const RequestId first = d->Send("small", read);
  EXPECT_THAT(Refused(read).text, HasSubstr("open_patterns"));
  read.patterns.resize(1);
  const RequestId second = d->Send("small", read);
  EXPECT_THAT(Refused(read).text, HasSubstr("open_requests"));
  EXPECT_EQ(Refused(GetOf(Every("t"))).code, ErrorCode::kBusy);
  d->Ask<Ok>("small", Cancel{first});
  d->Ask<Ok>("small", Cancel{second});
  d->Send("small", read);
  EXPECT_EQ(d->space.GetStatistics().open_reads, 1u);
}

TEST_F(QuotaTest, OpenGetsAreLimited) {
  ClientLimits limits;
  limits.open_gets = 2;
  d->Step(ClientJoined{"k/1", "k", limits});
  const RequestId first = d->Send("k/1", GetOf(Every("t")));
  d->Send("k/1", GetOf(Every("t")));
  const RequestError error = d->Ask<RequestError>("k/1", GetOf(Every("t")));
  EXPECT_EQ(error.code, ErrorCode::kBusy);
  EXPECT_THAT(error.text, HasSubstr("open_gets of this client's role: 2"));
  Read read{{Every("none")}};
  read.wait_us = kForeverUs;
  EXPECT_FALSE(d->ReplyTo("k/1", d->Send("k/1", read))) << "other requests do not count";
  EXPECT_TRUE(d->GetNow("k/1", Every("t")).empty()) << "nor does a Get that does not wait";
  d->Step(Incoming{"k/1", {first, GetOf(Every("t"))}});
  EXPECT_FALSE(d->ReplyTo("k/1", first)) << "a new offer takes the place of the earlier one";
  d->Ask<Ok>("k/1", Cancel{first});
  EXPECT_FALSE(d->ReplyTo("k/1", d->Send("k/1", GetOf(Every("t")))));
}

TEST_F(QuotaTest, LeasesAreLimited) {
  for (int i = 0; i < 4; ++i) d->PutOne("m", Task(Key{"t", i}));
  const auto grants = d->GetNow("small", Every("t"), UINT64_MAX, 4);
  ASSERT_EQ(grants.size(), 2u);
  EXPECT_THAT(Refused(GetOf(Every("t"))).text, HasSubstr("leases"));
  d->Done("small", {grants[0].key, grants[0].fence});
  EXPECT_EQ(d->GetNow("small", Every("t"), UINT64_MAX, 4).size(), 1u);
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

// ---- large requests ----------------------------------------------------------------------------

// ---- borrowed tuples ----------------------------------------------------------------------------

constexpr std::int64_t kBorrowUs = 5'000'000;
constexpr std::int64_t kHourUs = 3'600'000'000;

// Clients of one key queue for a lock.
class BorrowTest : public QuotaTest {
 protected:
  void SetUp() override {
    Begin({});
    ClientLimits limits;
    limits.borrow_us = kBorrowUs;
    for (const char* client : {"a", "b", "c"}) d->Step(ClientJoined{client, "key", limits});
    d->PutOne("m", Plain(lock_));
  }
  Get Wanted() const {
    Get get = GetOf(Pattern::Of(lock_), 0);
    get.lease_us = kHourUs;
    return get;
  }
  LeaseRef Take(const ClientId& client) { return d->Granted(client, d->Send(client, Wanted())); }
  LeaseStatus End(const ClientId& client, const LeaseRef& lease) {
    return d->Ask<LeaseReply>(client, Release{lease}).lease;
  }

  const Key lock_{"lock"};
};

TEST_F(BorrowTest, TheLeaseEndsHoweverItIsExtended) {
  const LeaseRef lease = Take("a");
  const RequestId next = d->Send("b", Wanted());
  d->Advance(kBorrowUs - 1);
  EXPECT_EQ(d->Ask<LeaseReply>("a", Extend{lease, kHourUs}).lease, LeaseStatus::kOk);
  d->Step(ClientSends{"a"});
  EXPECT_FALSE(d->ReplyTo("b", next));
  d->Advance(1);
  d->Granted("b", next);
  EXPECT_EQ(End("a", lease), LeaseStatus::kStale);
}

TEST_F(BorrowTest, WhoGivesItBackQueuesBehindTheOthers) {
  const LeaseRef of_a = Take("a");
  EXPECT_THAT(d->Ask<RequestError>("a", Wanted()).text, HasSubstr("has borrowed"));
  const RequestId b = d->Send("b", Wanted());
  EXPECT_THAT(d->Ask<RequestError>("b", Wanted()).text, HasSubstr("waits for"));
  const RequestId c = d->Send("c", Wanted());
  EXPECT_EQ(End("a", of_a), LeaseStatus::kOk);
  const RequestId a = d->Send("a", Wanted());
  EXPECT_EQ(End("b", d->Granted("b", b)), LeaseStatus::kOk);
  EXPECT_FALSE(d->ReplyTo("a", a));
  EXPECT_EQ(End("c", d->Granted("c", c)), LeaseStatus::kOk);
  d->Granted("a", a);
}

TEST_F(BorrowTest, ItCannotBeTakenForGood) {
  const LeaseRef lease = Take("a");
  EXPECT_EQ(d->Ask<RequestError>("a", Complete{lease, {}}).code, ErrorCode::kForbidden);
  EXPECT_EQ(d->Ask<RequestError>("a", Complete{lease, {Plain(Key{"k"})}}).code,
            ErrorCode::kForbidden);
  EXPECT_EQ(End("a", lease), LeaseStatus::kOk);
  Take("b");
}

// It would give the others back at once and get them again, as they precede most tasks.
TEST_F(BorrowTest, OnlyAWholeKeyBringsATupleThatIsNoTask) {
  d->PutOne("m", Plain(Key{"t", 1}));
  d->PutOne("m", Task(Key{"t", 2}));
  const auto grants = d->GetNow("a", Every("t"), UINT64_MAX, 5);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].key, (Key{"t", 2}));
  const RequestId open = d->Send("b", GetOf(Every("t")));
  d->PutOne("m", Plain(Key{"t", 3}));
  EXPECT_FALSE(d->ReplyTo("b", open));
  EXPECT_EQ(d->GetNow("c", Pattern::Of(Key{"t", 3})).size(), 1u);
  // Who may take everything does so with the same pattern.
  EXPECT_EQ(d->GetNow("m", Every("t"), UINT64_MAX, 5).size(), 1u);
  d->PutOne("m", Task(Key{"t", 4}));
  EXPECT_EQ(d->Granted("b", open).key, (Key{"t", 4}));
}

TEST_F(BorrowTest, AClientThatIsLostGivesItBack) {
  Take("a");
  const RequestId next = d->Send("b", Wanted());
  d->Lose("a");
  d->Granted("b", next);
}

TEST_F(BorrowTest, OtherClientsKeepLocksAsLongAsTheyExtendThem) {
  const LeaseRef lease = Take("m");
  d->Advance(kHourUs - 1);
  EXPECT_EQ(d->Ask<LeaseReply>("m", Extend{lease, kHourUs}).lease, LeaseStatus::kOk);
  d->Advance(kHourUs - 1);
  EXPECT_EQ(d->Done("m", lease).lease, LeaseStatus::kOk);
}

// ---- large requests -----------------------------------------------------------------------------

class LargeTest : public QuotaTest {
 protected:
  static constexpr int kTuples = 50;
  void SetUp() override {
    SpaceLimits limits;
    limits.examined_at_once = 10;
    limits.examined_by_slice = 4;
    limits.examined_by_read = 20;
    limits.read_patterns = 3;
    Begin(limits);
    d->Join("a");
    d->Join("b");
    for (int i = 0; i < kTuples; ++i) d->PutOne("m", Plain(Key{"k", i}, "x"));
  }
  // Ticks until the request is answered; sets the number of ticks.
  template <typename T>
  T After(const ClientId& client, RequestId id, int* ticks) {
    for (*ticks = 0;; ++*ticks) {
      if (auto reply = d->ReplyTo(client, id)) return std::get<T>(*reply);
      if (*ticks > 1000) {
        ADD_FAILURE() << "never answered";
        return {};
      }
      EXPECT_LE(d->space.NextDeadlineUs(), d->now_us) << "there is work to do";
      d->Advance(0);
    }
  }
};

TEST_F(LargeTest, ACountGoesOnByTurns) {
  const RequestId first = d->Send("a", Count{kEverything});
  const RequestId again = d->Send("a", Count{kEverything});
  const RequestId other = d->Send("b", Count{kEverything});
  EXPECT_FALSE(d->ReplyTo("a", first));
  EXPECT_EQ(d->CountOf("m", Pattern::Of(Key{"k", 1})), 1u) << "a small one is answered at once";
  int ticks = 0;
  EXPECT_EQ(After<CountReply>("b", other, &ticks).count, 50u);
  EXPECT_EQ(ticks, 20) << "ten slices of its own, ten of the other's";
  EXPECT_TRUE(d->ReplyTo("a", first));
  EXPECT_FALSE(d->ReplyTo("a", again)) << "who asks twice gets no more turns";
  EXPECT_EQ(After<CountReply>("a", again, &ticks).count, 50u);
  EXPECT_EQ(d->space.NextDeadlineUs(), kForeverUs);
}

TEST_F(LargeTest, AListGoesOnByTurnsWhileTuplesComeAndGo) {
  const RequestId id = d->Send("a", List{kEverything, 1000, false});
  d->Advance(0);
  d->Ask<RetireReply>("m", Retire{Pattern::Of(Key{"k", 20}), false});
  d->Ask<RetireReply>("m", Retire{Pattern::Of(Key{"k", 14}), false});  // where the List continues
  d->PutOne("m", Plain(Key{"k", 1000}, "x"));
  d->PutOne("m", Plain(Key{"a", 0}, "x"));  // before that place
  int ticks = 0;
  const Found found = After<Found>("a", id, &ticks);
  EXPECT_EQ(found.tuples.size(), 49u);
  EXPECT_FALSE(found.truncated);
  for (std::size_t i = 1; i < found.tuples.size(); ++i) {
    EXPECT_LT(found.tuples[i - 1].key, found.tuples[i].key);
  }
}

TEST_F(LargeTest, AListEndsAtItsLimit) {
  const RequestId id = d->Send("a", List{kEverything, 25, false});
  int ticks = 0;
  const Found found = After<Found>("a", id, &ticks);
  EXPECT_EQ(found.tuples.size(), 25u);
  EXPECT_TRUE(found.truncated);
}

TEST_F(LargeTest, AListEndsAtTheLimitOfItsRole) {
  const Found found = d->Ask<Found>("small", List{kEverything, 1000, true});
  EXPECT_EQ(found.tuples.size(), 5u);
  EXPECT_TRUE(found.truncated);
}

// However many clients list at the same time.
TEST_F(LargeTest, UnfinishedListsOfAllClientsOfAKeyAreLimitedTogether) {
  ClientLimits limits;
  limits.listed_bytes_of_key = sizeof(FoundTuple) * kTuples * 2;
  for (const char* client : {"k/1", "k/2"}) d->Step(ClientJoined{client, "k", limits});
  d->Step(ClientJoined{"other/1", "other", limits});
  const List all{kEverything, 1000, true};
  const auto list = [&](const ClientId& client) { return d->Send(client, all); };
  const RequestId first = list("k/1");
  const RequestId second = list("k/2");
  const RequestId of_other = list("other/1");
  int ticks = 0;
  const auto busy = After<RequestError>("k/1", first, &ticks);
  EXPECT_EQ(busy.code, ErrorCode::kBusy);
  EXPECT_THAT(busy.text, HasSubstr("limits.listed_bytes_of_key"));
  EXPECT_EQ(After<Found>("k/2", second, &ticks).tuples.size(), 50u);
  EXPECT_EQ(After<Found>("other/1", of_other, &ticks).tuples.size(), 50u)
      << "another key has its own";
  EXPECT_EQ(After<Found>("k/1", list("k/1"), &ticks).tuples.size(), 50u) << "there is room again";
  list("k/1");
  d->Advance(0);
  d->Lose("k/1");
  EXPECT_EQ(After<Found>("k/2", list("k/2"), &ticks).tuples.size(), 50u)
      << "who is lost takes no room any more";
}

// Such a List would never come to its end.
TEST_F(LargeTest, AListThatNeverHasRoomIsRefusedForGood) {
  ClientLimits limits;
  limits.listed_bytes_of_key = sizeof(FoundTuple) * kTuples / 2;
  d->Step(ClientJoined{"k/1", "k", limits});
  int ticks = 0;
  const RequestId id = d->Send("k/1", List{kEverything, 1000, true});
  EXPECT_EQ(After<RequestError>("k/1", id, &ticks).code, ErrorCode::kTooLarge);
}

TEST_F(LargeTest, ListsAndCountsAreOpenRequests) {
  d->Send("small", Count{kEverything});
  d->Send("small", List{kEverything});
  EXPECT_THAT(Refused(Count{kEverything}).text, HasSubstr("open_requests"));
  d->Lose("small");
  EXPECT_EQ(d->space.NextDeadlineUs(), kForeverUs) << "nobody waits for them";
}

TEST_F(LargeTest, AReadThatIsTooBroadIsRefused) {
  Read read{{{{FieldPattern::Any(), FieldPattern::AtLeast(40)}, false}}};
  read.wait_us = kForeverUs;
  const RequestError error = d->Ask<RequestError>("a", read);
  EXPECT_EQ(error.code, ErrorCode::kTooLarge);
  EXPECT_THAT(error.text, HasSubstr("examined_by_read"));
  read.patterns = {{{FieldPattern::Exact("k"), FieldPattern::AtLeast(40)}, false}};
  EXPECT_EQ(d->Ask<Found>("a", read).tuples.size(), 1u) << "this one says where it is";
}

TEST_F(LargeTest, AnOpenReadThatBecomesTooBroadIsRefused) {
  Read read{
      {{{FieldPattern::Exact("z"), FieldPattern::Any(), FieldPattern::Exact("here")}, false}}};
  read.wait_us = kForeverUs;
  const RequestId id = d->Send("a", read);
  for (int i = 0; i < 25; ++i) d->PutOne("m", Plain(Key{"z", i, "elsewhere"}));
  EXPECT_FALSE(d->ReplyTo("a", id));
  d->PutOne("m", Plain(Key{"z", 99, "here"}));
  EXPECT_EQ(d->Expect<RequestError>("a", id).code, ErrorCode::kTooLarge);
  EXPECT_EQ(d->space.GetStatistics().open_reads, 0u);
}

TEST_F(LargeTest, DifferentPatternsOfOpenReadsAreLimited) {
  for (int i = 0; i < 4; ++i) {
    Read read{{Every("none" + std::to_string(i))}};
    read.wait_us = kForeverUs;
    if (i < 3) {
      d->Send("a", read);
    } else {
      EXPECT_THAT(d->Ask<RequestError>("a", read).text, HasSubstr("read_patterns"));
    }
  }
}

// The space knows from the pattern that others could do a task.
TEST_F(QuotaTest, APatternThatOthersUseIsNotRemovedByWhoBeganIt) {
  ClientLimits limits;
  limits.get_patterns_of_key = 2;
  SpaceLimits of_space;
  of_space.tasks_in_vain = 1;
  Begin(of_space);
  d->Step(ClientJoined{"evil/1", "evil", limits});
  d->Step(ClientJoined{"good/1", "good", limits});
  for (int i = 0; i < 2; ++i) d->PutOne("m", Task(Key{"t", i}));
  EXPECT_EQ(d->GetNow("evil/1", Every("none")).size(), 0u);
  const LeaseRef lease = d->TakeNow("evil/1", Every("t"));
  EXPECT_EQ(d->GetNow("good/1", Every("t")).size(), 1u);  // it is busy with that task
  for (int i = 0; i < 3; ++i) EXPECT_EQ(d->GetNow("evil/1", UpTo("x", i)).size(), 0u);
  d->Ask<LeaseReply>("evil/1", Fail{lease, "it does not want to"});
  EXPECT_EQ(d->counters().benched, 1u);
  // A pattern that nobody else uses any more makes room again.
  d->Lose("good/1");
  for (int i = 3; i < 6; ++i) EXPECT_EQ(d->GetNow("evil/1", UpTo("x", i)).size(), 0u);
}

// Otherwise two keys could use all patterns that the space has.
TEST_F(QuotaTest, APatternThatOthersUseStillCountsForWhoBeganIt) {
  ClientLimits limits;
  limits.get_patterns_of_key = 2;
  for (const char* client : {"evil/1", "evil/2"}) d->Step(ClientJoined{client, "evil", limits});
  d->Step(ClientJoined{"friend/1", "friend", limits});
  std::vector<RequestId> open;
  for (int i = 0; i < 2; ++i) {
    open.push_back(d->Send("evil/1", GetOf(UpTo("x", i))));
    EXPECT_FALSE(d->ReplyTo("evil/1", open.back()));
    EXPECT_EQ(d->GetNow("friend/1", UpTo("x", i)).size(), 0u);
  }
  for (const char* client : {"evil/1", "evil/2"}) {
    const RequestError error = d->Ask<RequestError>(client, GetOf(UpTo("x", 2)));
    EXPECT_EQ(error.code, ErrorCode::kBusy);
    EXPECT_THAT(error.text, HasSubstr("limits.get_patterns_of_key"));
  }
  EXPECT_EQ(d->GetNow("friend/1", UpTo("x", 2)).size(), 0u) << "this one is not of its making";
  // It gets room again when nobody else uses a pattern for which it does not wait.
  d->Ask<Ok>("evil/1", Cancel{open[0]});
  EXPECT_EQ(d->Ask<RequestError>("evil/1", GetOf(UpTo("x", 3))).code, ErrorCode::kBusy);
  d->Lose("friend/1");
  EXPECT_FALSE(d->ReplyTo("evil/1", d->Send("evil/1", GetOf(UpTo("x", 3)))));
}

TEST_F(QuotaTest, HoldsOfAllClientsOfAKeyAreLimitedTogether) {
  ClientLimits limits;
  limits.held_keys_of_key = 2;
  d->Step(ClientJoined{"k/1", "k", limits});
  d->Step(ClientJoined{"k/2", "k", limits});
  d->Step(ClientJoined{"other/1", "other", limits});
  for (int i = 1; i <= 3; ++i) d->PutOne("m", Plain(Key{"tile", i}));
  const auto held = [&] { return d->space.GetStatistics().held_keys; };
  d->Ask<Ok>("k/1", Hold{{Key{"tile", 1}}, {}});
  d->Ask<Ok>("k/2", Hold{{Key{"tile", 1}, Key{"tile", 2}, Key{"tile", 3}}, {}});
  EXPECT_EQ(held(), 2u);
  d->Ask<Ok>("other/1", Hold{{Key{"tile", 2}}, {}});
  EXPECT_EQ(held(), 3u) << "another key has its own";
  d->Ask<Ok>("k/2", Hold{{}, {Key{"tile", 1}}});
  d->Ask<Ok>("k/1", Hold{{Key{"tile", 3}, Key{"tile", 2}}, {}});
  EXPECT_EQ(held(), 3u) << "what is dropped makes room";
  d->Lose("k/1");
  d->Ask<RetireReply>("m", Retire{Every("tile"), false});
  EXPECT_EQ(held(), 0u);
  for (int i = 4; i <= 6; ++i) d->PutOne("m", Plain(Key{"tile", i}));
  d->Ask<Ok>("k/2", Hold{{Key{"tile", 4}, Key{"tile", 5}, Key{"tile", 6}}, {}});
  EXPECT_EQ(held(), 2u);
}

// Many clients of a key must not fill the space.
TEST_F(QuotaTest, OwnTuplesOfAllClientsOfAKeyAreAPartOfTheSpace) {
  SpaceLimits of_space;
  of_space.tuples = 40;
  Begin(of_space);
  ClientLimits limits;
  limits.leaves_nothing = true;
  for (const char* client : {"k/1", "k/2"}) d->Step(ClientJoined{client, "k", limits});
  d->Step(ClientJoined{"other/1", "other", limits});
  for (int i = 0; i < 8; ++i) d->PutOne("k/1", Plain(Key{"first", i}));
  for (int i = 0; i < 2; ++i) d->PutOne("k/2", Plain(Key{"second", i}));
  const auto more = [&](const ClientId& client) {
    return d->Ask<RequestError>(client, Put{{Plain(Key{"second", 9})}});
  };
  for (const char* client : {"k/1", "k/2"}) {
    EXPECT_EQ(more(client).code, ErrorCode::kBusy);
    EXPECT_THAT(more(client).text, HasSubstr("own tuples of all clients of this key"));
    EXPECT_THAT(more(client).text, HasSubstr("1 more with 10 there, at most 10"));
  }
  EXPECT_EQ(d->PutOne("other/1", Plain(Key{"third", 1})), PutStatus::kStored)
      << "another key has its own";
  d->Ask<RetireReply>("m", Retire{Pattern::Of(Key{"first", 0}), false});
  EXPECT_EQ(d->PutOne("k/2", Plain(Key{"second", 9})), PutStatus::kStored) << "there is room again";
  d->Lose("k/1");
  for (int i = 2; i < 9; ++i) {
    EXPECT_EQ(d->PutOne("k/2", Plain(Key{"second", i})), PutStatus::kStored);
  }
  EXPECT_EQ(more("k/2").code, ErrorCode::kBusy);
  std::vector<Tuple> too_many;
  for (int i = 0; i < 11; ++i) too_many.push_back(Plain(Key{"third", i}));
  EXPECT_EQ(d->Ask<RequestError>("other/1", Put{too_many}).code, ErrorCode::kTooLarge);
}

TEST_F(QuotaTest, ManyClientsOfAKeyLeaveRoomForThePayloadsOfOthers) {
  constexpr std::size_t kKiB = 1024;
  SpaceLimits of_space;
  of_space.payload_bytes = 400 * kKiB;
  Begin(of_space);
  ClientLimits limits;
  limits.leaves_nothing = true;
  limits.own_payload_bytes = 50 * kKiB;
  int stored = 0;
  for (int i = 0; i < 8; ++i) {
    const ClientId client = "k/" + std::to_string(i);
    d->Step(ClientJoined{client, "k", limits});
    const Tuple probe = Plain(Key{"probe", client}, std::string(50 * kKiB, 'p'));
    const RequestId id = d->Send(client, Put{{probe}});
    const auto reply = d->ReplyTo(client, id);
    ASSERT_TRUE(reply);
    if (const auto* error = std::get_if<RequestError>(&*reply)) {
      EXPECT_EQ(error->code, ErrorCode::kBusy);
      EXPECT_THAT(error->text, HasSubstr("own payload bytes of all clients of this key"));
    } else {
      ++stored;
    }
  }
  EXPECT_EQ(stored, 2) << "a quarter of the space";
  EXPECT_EQ(d->PutOne("m", Plain(Key{"tile"}, std::string(300 * kKiB, 't'))), PutStatus::kStored);
}

}  // namespace
}  // namespace tuplespace
