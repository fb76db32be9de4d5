// Tasks that are kept for the client that holds one of their inputs.
#include <gtest/gtest.h>

#include "space_get.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::GetTest;
using testing::Plain;
using testing::Task;

class AffinityTest : public GetTest {};

TEST_F(AffinityTest, ATaskGoesToTheWaitingHolderOfItsAffinityTuple) {
  d->PutOne("m", Plain(Key{"tile", 1}));
  const RequestId other = Wait("a", 10);
  const RequestId holder = Wait("b", 1000);
  d->Ask<Ok>("b", Hold{{Key{"tile", 1}}, {}});
  d->PutOne("m", Task(Key{"t", 1}, {Key{"tile", 1}}, 5, 0));
  EXPECT_TRUE(d->ReplyTo("b", holder));
  EXPECT_FALSE(d->ReplyTo("a", other));
  EXPECT_EQ(d->counters().affinity_hits, 1u);
}

TEST_F(AffinityTest, ATaskIsKeptForItsHolderAndThenStolen) {
  SpaceLimits limits;
  limits.steal_after_us = 2000;
  Begin(limits);
  Introduce("b");
  d->PutOne("m", Plain(Key{"tile", 1}));
  d->Ask<Ok>("b", Hold{{Key{"tile", 1}}, {}});
  const RequestId other = Wait("a");
  d->PutOne("m", Task(Key{"t", 1}, {Key{"tile", 1}}, 5, 0));
  EXPECT_FALSE(d->ReplyTo("a", other));
  EXPECT_EQ(d->space.NextDeadlineUs(), 2000);
  d->Advance(1999);
  EXPECT_FALSE(d->ReplyTo("a", other));
  d->Advance(1);
  EXPECT_EQ(d->Granted("a", other).key, (Key{"t", 1}));
  EXPECT_EQ(d->counters().steals, 1u);
  EXPECT_EQ(d->counters().affinity_hits, 0u);
}

TEST_F(AffinityTest, AGetTakesItsOwnThenUnheldThenLateTasks) {
  Introduce("a");
  Introduce("b");
  for (int i = 1; i <= 3; ++i) d->PutOne("m", Plain(Key{"tile", i}));
  d->Ask<Ok>("a", Hold{{Key{"tile", 1}}, {}});
  d->Ask<Ok>("b", Hold{{Key{"tile", 2}}, {}});
  d->PutOne("m", Task(Key{"t", 2}, {Key{"tile", 2}}, 900, 0));
  d->PutOne("m", Task(Key{"t", 3}, {Key{"tile", 3}}, 500, 0));
  d->PutOne("m", Task(Key{"t", 1}, {Key{"tile", 1}}, 1, 0));
  d->Advance(SpaceLimits{}.steal_after_us);
  EXPECT_EQ(NextKey("a"), (Key{"t", 1}));
  EXPECT_EQ(NextKey("a"), (Key{"t", 3}));
  EXPECT_EQ(NextKey("a"), (Key{"t", 2}));
  EXPECT_EQ(d->counters().steals, 1u);
  EXPECT_EQ(d->counters().affinity_hits, 1u);
}

TEST_F(AffinityTest, OneThatNeverAsksForTasksKeepsNobodyWaiting) {
  Tuple tile = Plain(Key{"tile", 1});
  tile.held = true;
  d->PutOne("m", tile);  // m holds the tile but takes no tasks
  d->PutOne("m", Task(Key{"t", 1}, {Key{"tile", 1}}, 0, 0));
  EXPECT_EQ(NextKey("a"), (Key{"t", 1}));
  EXPECT_EQ(d->counters().steals, 0u);
}

TEST_F(AffinityTest, AnyOfSeveralHoldersMayTakeIt) {
  for (const char* client : {"a", "b", "c"}) Introduce(client);
  d->PutOne("m", Plain(Key{"tile", 1}));
  d->Ask<Ok>("a", Hold{{Key{"tile", 1}}, {}});
  d->Ask<Ok>("b", Hold{{Key{"tile", 1}}, {}});
  d->Ask<PutReply>("m", Put{{Task(Key{"t", 1}, {Key{"tile", 1}}, 0, 0),
                             Task(Key{"t", 2}, {Key{"tile", 1}}, 0, 0)}});
  EXPECT_EQ(NextKey("c"), Key());
  EXPECT_EQ(NextKey("b"), (Key{"t", 1}));
  EXPECT_EQ(NextKey("a"), (Key{"t", 2}));
}

TEST_F(AffinityTest, ATaskIsFreeWhenItsHolderGoesOrDropsTheTuple) {
  Introduce("a");
  Introduce("b");
  for (int i = 1; i <= 2; ++i) d->PutOne("m", Plain(Key{"tile", i}));
  d->Ask<Ok>("a", Hold{{Key{"tile", 1}, Key{"tile", 2}}, {}});
  d->PutOne("m", Task(Key{"t", 1}, {Key{"tile", 1}}, 0, 0));
  d->PutOne("m", Task(Key{"t", 2}, {Key{"tile", 2}}, 0, 0));
  EXPECT_EQ(NextKey("b"), Key());
  d->Ask<Ok>("a", Hold{{}, {Key{"tile", 1}}});
  EXPECT_EQ(NextKey("b"), (Key{"t", 1}));
  EXPECT_EQ(NextKey("b"), Key());
  d->Lose("a");
  EXPECT_EQ(NextKey("b"), (Key{"t", 2}));
  EXPECT_EQ(d->counters().steals, 0u);
}

TEST_F(AffinityTest, ALateHoldMovesTasksThatAreReadyAlready) {
  Introduce("a");
  Introduce("b");
  d->PutOne("m", Plain(Key{"tile", 1}));
  d->PutOne("m", Task(Key{"t", 1}, {Key{"tile", 1}}, 0, 0));
  d->Ask<Ok>("a", Hold{{Key{"tile", 1}}, {}});
  EXPECT_EQ(NextKey("b"), Key());
  EXPECT_EQ(NextKey("a"), (Key{"t", 1}));
}

TEST_F(AffinityTest, HoldsAreForgottenWithTheTupleAndLimited) {
  SpaceLimits limits;
  limits.held_keys_per_client = 2;
  Begin(limits);
  for (int i = 1; i <= 3; ++i) d->PutOne("m", Plain(Key{"tile", i}));
  d->Ask<Ok>("a", Hold{{Key{"tile", 1}, Key{"tile", 2}, Key{"tile", 3}}, {}});
  EXPECT_EQ(d->space.GetStatistics().held_keys, 2u);
  d->Ask<RetireReply>("m", Retire{Every("tile"), false});
  EXPECT_EQ(d->space.GetStatistics().held_keys, 0u);
}

TEST_F(AffinityTest, ADuplicatePutThatIsHeldCountsAsAHold) {
  Introduce("a");
  Introduce("b");
  d->PutOne("m", Plain(Key{"tile", 1}, "x"));
  Tuple again = Plain(Key{"tile", 1}, "x");
  again.held = true;
  EXPECT_EQ(d->PutOne("a", again), PutStatus::kDuplicate);
  d->PutOne("m", Task(Key{"t", 1}, {Key{"tile", 1}}, 0, 0));
  EXPECT_EQ(NextKey("b"), Key());
  EXPECT_EQ(NextKey("a"), (Key{"t", 1}));
}

}  // namespace
}  // namespace tuplespace
