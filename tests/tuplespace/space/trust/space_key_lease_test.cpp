// Clients of one key cannot increase their leases by letting them expire one after the other, nor
// by extending them without end.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "space_key_trust.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::KeyTrustTest;
using testing::kLeaseUs;
using testing::kLimits;
using testing::Making;
using testing::Plain;
using testing::Task;

class KeyLeaseTest : public KeyTrustTest {
 protected:
  // The client takes a task and extends its lease for as long as it may; then another client does
  // the task. Returns the time as a multiple of the lease.
  std::int64_t Cling(const ClientId& client) {
    PutTask();
    const std::vector<Grant> grants = Take(client);
    EXPECT_EQ(grants.size(), 1u) << client;
    if (grants.empty()) return 0;
    const LeaseRef lease{grants[0].key, grants[0].fence};
    const std::int64_t since_us = d.now_us;
    const auto extended = [&] {
      return d.Ask<LeaseReply>(client, Extend{lease, 3'600'000'000}).lease == LeaseStatus::kOk;
    };
    while (extended()) d.Advance(kLeaseUs / 2);
    const std::int64_t held_us = d.now_us - since_us;
    CompleteOne("handler/0");
    d.Advance(kLimits.most_bench_us);
    return held_us / kLeaseUs;
  }
  // The client takes a task and extends its lease once, as far as it may.
  void TakeAndExtend(const ClientId& client) {
    const std::vector<Grant> grants = Take(client);
    ASSERT_EQ(grants.size(), 1u) << client;
    const LeaseRef lease{grants[0].key, grants[0].fence};
    d.Ask<LeaseReply>(client, Extend{lease, 3'600'000'000});
  }
  // A new client completes a task, takes another one and holds it almost for as long as it may.
  // Then it leaves, and another client does the task. Returns the time as a multiple of the lease.
  std::int64_t ClingAndLeave(const ClientId& client) {
    Join(client);
    PutTask();
    CompleteOne(client);
    PutTask();
    TakeAndExtend(client);
    const std::int64_t held_us = d.space.NextDeadlineUs() - d.now_us;
    d.Advance(held_us - 1);
    d.Lose(client);
    CompleteOne("handler/0");
    return held_us / kLeaseUs;
  }
};

// ---- expired leases -----------------------------------------------------------------------------

TEST_F(KeyLeaseTest, IdsOfOneKeyDoubleALeaseOnce) {
  PutTask();
  std::vector<std::int64_t> lease_us;
  for (const char* client : {"evil/0", "evil/1", "evil/2", "evil/3"}) {
    Join(client);
    d.Advance(kLimits.most_bench_us);
    const std::vector<Grant> grants = Take(client);
    ASSERT_EQ(grants.size(), 1u) << client;
    lease_us.push_back(grants[0].lease_us);
    d.Advance(grants[0].lease_us);
  }
  EXPECT_EQ(lease_us,
            (std::vector<std::int64_t>{kLeaseUs, 2 * kLeaseUs, 2 * kLeaseUs, 2 * kLeaseUs}));
}

TEST_F(KeyLeaseTest, ALapseOnProbationDoublesNothing) {
  Join("evil/0");
  Offend("evil/0");
  d.Advance(kLimits.most_bench_us);
  Join("evil/1");
  PutTask();
  EXPECT_EQ(Take("evil/1").size(), 1u);
  d.Advance(kLeaseUs);
  EXPECT_EQ(Take("handler/0").at(0).lease_us, kLeaseUs);
}

TEST_F(KeyLeaseTest, ASlowDeviceGetsALongerLeaseButNotEndlessly) {
  PutTask();
  std::int64_t lease_us = 0;
  for (int i = 0; i < 10; ++i) {
    const std::vector<Grant> grants = Take("handler/0");
    ASSERT_EQ(grants.size(), 1u);
    EXPECT_GE(grants[0].lease_us, lease_us);
    lease_us = grants[0].lease_us;
    d.Advance(lease_us);
  }
  EXPECT_EQ(lease_us, kLimits.lease_extensions * kLeaseUs);
}

// ---- repeated extensions ------------------------------------------------------------------------

TEST_F(KeyLeaseTest, WhoHasCompletedNothingMayExtendALeaseToTwice) {
  Join("evil/0");
  EXPECT_EQ(Cling("evil/0"), 2);
  Join("other/0");
  PutTask();
  CompleteOne("other/0");
  EXPECT_EQ(Cling("other/0"), 8);
}

// Otherwise the client would keep one task of each step for as long as the first.
TEST_F(KeyLeaseTest, EachBenchHalvesForHowLongALeaseMayBeExtended) {
  Join("other/0");
  PutTask();
  CompleteOne("other/0");
  for (const std::int64_t times : {8, 4, 2, 1, 1}) EXPECT_EQ(Cling("other/0"), times);
  // A slow device that finally does its tasks regains its time.
  for (std::uint32_t i = 0; i < 4 * kLimits.forgiven_after; ++i) {
    PutTask();
    CompleteOne("other/0");
  }
  EXPECT_EQ(Cling("other/0"), 4) << "of five benches one is left";
}

TEST_F(KeyLeaseTest, NewIdsOfAKeyThatClungMayNotExtendTheirLeases) {
  for (int i = 0; i < 4; ++i) {
    const ClientId client = "evil/" + std::to_string(i);
    Join(client);
    EXPECT_EQ(Cling(client), i == 0 ? 2 : 1) << client;
    d.Lose(client);
  }
  // The benches of a key also count for a client of it that has completed a task.
  Join("evil/9");
  PutTask();
  CompleteOne("evil/9");
  EXPECT_EQ(Cling("evil/9"), 1);
}

// A client on probation does not get a doubled lease, so it must not reach that length by
// extensions.
TEST_F(KeyLeaseTest, ADoubledLeaseDoesNotLetAClientOnProbationExtendItsOwn) {
  for (int i = 0; i < 2; ++i) {
    const ClientId client = "evil/" + std::to_string(i);
    Join(client);
    Cling(client);
    d.Lose(client);
  }
  PutTask();
  const std::vector<Grant> lapsed = Take("handler/0");
  ASSERT_EQ(lapsed.size(), 1u);
  d.Advance(lapsed[0].lease_us);
  Join("evil/2");
  const std::vector<Grant> grants = Take("evil/2");
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].lease_us, kLeaseUs);
  const LeaseRef lease{grants[0].key, grants[0].fence};
  d.Advance(kLeaseUs / 2);
  d.Ask<LeaseReply>("evil/2", Extend{lease, 3'600'000'000});
  d.Advance(kLeaseUs / 2);
  EXPECT_EQ(d.Ask<LeaseReply>("evil/2", Extend{lease, kLeaseUs}).lease, LeaseStatus::kStale);
}

// ---- leaving with a task ------------------------------------------------------------------------

// The first one may have crashed.
TEST_F(KeyLeaseTest, LeavingBeforeALeaseEndsCountsForTheKeyFromTheSecondTimeOn) {
  int i = 0;
  for (const std::int64_t times : {8, 8, 4, 2, 1, 1}) {
    const ClientId client = "evil/" + std::to_string(i++);
    EXPECT_EQ(ClingAndLeave(client), times) << client;
  }
  EXPECT_EQ(d.counters().benched, 3u) << "a lease that was not extended does not count";
}

TEST_F(KeyLeaseTest, LeavingIsFreeAgainAfterAWhile) {
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ClingAndLeave("evil/" + std::to_string(i)), 8);
    d.Advance(kLimits.key_forgiven_us);
  }
  EXPECT_EQ(d.counters().benched, 0u);
}

TEST_F(KeyLeaseTest, ClientsThatAreLostTogetherCountOnce) {
  std::vector<ClientId> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back("other/" + std::to_string(i));
    Join(clients.back());
    PutTask();
    CompleteOne(clients.back());
  }
  for (const ClientId& client : clients) {
    PutTask();
    TakeAndExtend(client);
  }
  d.Advance(2 * kLeaseUs);
  for (const ClientId& client : clients) {
    d.Lose(client);
    d.Advance(kLeaseUs / 2);
  }
  EXPECT_EQ(d.counters().benched, 0u);
  for (int i = 0; i < 8; ++i) CompleteOne("handler/0");
  EXPECT_EQ(ClingAndLeave("other/9"), 8);
  EXPECT_EQ(d.counters().benched, 1u);
}

TEST_F(KeyLeaseTest, WhoHasCompletedManyTasksMayLeaveWithAnother) {
  for (int i = 0; i < 4; ++i) {
    const ClientId client = "other/" + std::to_string(i);
    Join(client);
    for (std::uint32_t done = 0; done < kLimits.forgiven_after; ++done) {
      PutTask();
      CompleteOne(client);
    }
    PutTask();
    TakeAndExtend(client);
    d.Advance(7 * kLeaseUs);
    d.Lose(client);
    CompleteOne("handler/0");
  }
  EXPECT_EQ(d.counters().benched, 0u);
}

TEST_F(KeyLeaseTest, WhoLeavesWhileItWaitsForAPayloadOfAnotherHasKeptNothing) {
  const Key input{"r", 1000};
  d.PutOne("m", Making(Task(Key{"t", 1000}, {}, 1), {input}));
  const LeaseRef made = d.TakeNow("handler/0", Every("t"));
  Tuple resident = Plain(input);
  resident.payload = {};
  resident.resident_bytes = 5;
  d.Done("handler/0", made, {resident});
  Read read{{Pattern::Of(input)}};
  read.wait_us = kForeverUs;
  d.Send("m", read);  // so its maker is asked for it
  for (std::int64_t i = 0; i < 4; ++i) {
    const ClientId client = "other/" + std::to_string(i);
    Join(client);
    PutTask();
    CompleteOne(client);
    Tuple task = Task(Key{"t", 2000 + i}, {input}, 1);
    task.task->lease_us = kLeaseUs;
    d.PutOne("m", task);
    TakeAndExtend(client);
    d.Advance(7 * kLeaseUs);
    d.Lose(client);
    d.Done("handler/0", d.TakeNow("handler/0", Every("t")));
  }
  EXPECT_EQ(d.counters().benched, 0u);
}

// ---- alone --------------------------------------------------------------------------------------

TEST_F(KeyLeaseTest, WhoIsAloneExtendsALeaseOnAndOnAllTheSame) {
  Join("evil/0");
  Cling("evil/0");
  d.Lose("evil/0");
  d.Lose("handler/0");
  Join("evil/1");
  PutTask();
  const std::vector<Grant> grants = Take("evil/1");
  ASSERT_EQ(grants.size(), 1u);
  const LeaseRef lease{grants[0].key, grants[0].fence};
  for (int i = 0; i < 100; ++i) {
    d.Advance(kLeaseUs / 2);
    ASSERT_EQ(d.Ask<LeaseReply>("evil/1", Extend{lease, kLeaseUs}).lease, LeaseStatus::kOk);
  }
  Complete("evil/1", grants[0]);
}

}  // namespace
}  // namespace tuplespace
