// Tasks, ready or leased, that are retired or whose inputs are retired.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "space_driver.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::Making;
using testing::Plain;
using testing::SpaceDriver;
using testing::Task;
using testing::UpTo;

class OrphanTest : public ::testing::Test {
 protected:
  OrphanTest() {
    for (const char* client : {"m", "a", "b"}) d.Join(client);
  }
  LeaseRef Take(const ClientId& client) { return d.TakeNow(client, Every("t")); }
  bool CanTake(const ClientId& client) { return !d.GetNow(client, Every("t")).empty(); }
  SpaceDriver d;
};

TEST_F(OrphanTest, ATaskWhoseInputIsRemovedIsReported) {
  d.PutOne("m", Plain(Key{"x", 1}));
  d.PutOne("m", Task(Key{"t", 1}, {Key{"x", 1}}));
  d.PutOne("m", Task(Key{"t", 2}, {Key{"x", 1}, Key{"y", 1}}));
  d.Ask<RetireReply>("a", Retire{Every("x"), false});
  ASSERT_EQ(d.notices["m"].size(), 2u);
  EXPECT_EQ(d.notices["m"][0].kind, Notice::Kind::kOrphaned);
  EXPECT_EQ(d.notices["m"][0].key, (Key{"t", 1}));
  EXPECT_NE(d.notices["m"][0].text.find("(\"x\", 1)"), std::string::npos);
  EXPECT_EQ(d.notices["m"][1].key, (Key{"t", 2}));
  EXPECT_FALSE(CanTake("a"));
  EXPECT_EQ(d.space.GetStatistics().tasks_parked, 2u);
}

TEST_F(OrphanTest, ATaskWhoseInputCanNeverComeIsReported) {
  d.PutOne("m", Task(Key{"t", 1}, {Key{"x", 5}}));
  d.Ask<RetireReply>("a", Retire{UpTo("x", 5)});
  EXPECT_EQ(d.notices["m"].size(), 1u);
  d.PutOne("m", Task(Key{"t", 2}, {Key{"x", 4}}));
  EXPECT_EQ(d.notices["m"].size(), 2u);
  d.PutOne("m", Task(Key{"t", 3}, {Key{"x", 6}}));
  EXPECT_EQ(d.notices["m"].size(), 2u);
  // A finished task never returns either, so it cannot be an input.
  d.PutOne("m", Task(Key{"t", 4}));
  d.Done("a", Take("a"));
  d.PutOne("m", Task(Key{"t", 5}, {Key{"t", 4}}));
  EXPECT_EQ(d.notices["m"].size(), 3u);
}

TEST_F(OrphanTest, TasksRetiredWithTheirInputsAreNotReported) {
  d.PutOne("m", Plain(Key{"a", 1}));
  d.PutOne("m", Task(Key{"t", 1}, {Key{"a", 1}}));
  EXPECT_EQ(d.Ask<RetireReply>("m", Retire{{{}, true}, false}).removed, 2u);
  EXPECT_TRUE(d.notices.empty());
}

TEST_F(OrphanTest, RetiringInputsDoesNotHarmALease) {
  d.PutOne("m", Plain(Key{"x", 1}));
  d.PutOne("m", Making(Task(Key{"t", 1}, {Key{"x", 1}}), {Key{"r", 1}}));
  d.PutOne("m", Plain(Key{"x", 2}));
  d.PutOne("m", Task(Key{"t", 2}, {Key{"x", 2}}));
  const LeaseRef first = Take("a");
  const LeaseRef second = Take("a");
  d.Ask<RetireReply>("m", Retire{UpTo("x", 2)});
  EXPECT_TRUE(d.notices.empty());
  EXPECT_EQ(d.Done("a", first, {Plain(Key{"r", 1})}).lease, LeaseStatus::kOk);
  EXPECT_EQ(d.Ask<LeaseReply>("a", Release{second}).lease, LeaseStatus::kOk);
  ASSERT_EQ(d.notices["m"].size(), 1u);
  EXPECT_EQ(d.notices["m"][0].kind, Notice::Kind::kOrphaned);
  EXPECT_EQ(d.notices["m"][0].key, (Key{"t", 2}));
  EXPECT_FALSE(CanTake("b"));
}

TEST_F(OrphanTest, AnInputIsRetiredWhetherATaskWaitsForItOrHoldsALease) {
  d.PutOne("m", Task(Key{"t", 1}, {Key{"x", 1}}));
  d.Ask<RetireReply>("m", Retire{UpTo("x", 0)});
  EXPECT_EQ(d.PutOne("m", Plain(Key{"x", 1})), PutStatus::kStored) << "the task waits for it";
  Take("a");
  d.Ask<RetireReply>("m", Retire{UpTo("x", 1)});
  EXPECT_EQ(d.PutOne("m", Plain(Key{"x", 1})), PutStatus::kRetired) << "the task holds a lease";
  EXPECT_TRUE(d.notices.empty());
  d.PutOne("m", Task(Key{"t", 2}, {Key{"x", 1}}));
  EXPECT_EQ(d.notices["m"].size(), 1u);
  d.PutOne("m", Task(Key{"t", 3}, {Key{"x", 2}}));
  d.Ask<RetireReply>("m", Retire{UpTo("x", 2)});
  EXPECT_EQ(d.notices["m"].size(), 2u);
  EXPECT_EQ(d.PutOne("m", Plain(Key{"x", 2})), PutStatus::kRetired) << "no task waits any more";
}

TEST_F(OrphanTest, ALeasedTaskCanBeRetired) {
  d.PutOne("m", Making(Task(Key{"t", 1}), {Key{"r", 1}}));
  const LeaseRef lease = Take("a");
  EXPECT_EQ(d.Ask<RetireReply>("m", Retire{UpTo("t", 1)}).removed, 1u);
  const auto reply = d.Done("a", lease, {Plain(Key{"r", 1})});
  EXPECT_EQ(reply.lease, LeaseStatus::kStale);
  EXPECT_EQ(reply.results, std::vector{PutStatus::kRefused}) << "nobody wants them any more";
  EXPECT_EQ(d.space.NextDeadlineUs(), kForeverUs);
}

TEST_F(OrphanTest, NoticesToThoseWhoAreGoneAreDropped) {
  d.PutOne("m", Plain(Key{"x", 1}));
  d.PutOne("m", Task(Key{"t", 1}, {Key{"x", 1}}));
  d.Lose("m");
  d.Ask<RetireReply>("a", Retire{Every("x"), false});
  EXPECT_TRUE(d.notices.empty());
  EXPECT_EQ(d.space.GetStatistics().tasks_parked, 1u);
}

}  // namespace
}  // namespace tuplespace
