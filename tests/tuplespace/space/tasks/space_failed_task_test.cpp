// Tasks that fail, or with which clients are lost.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "space_lease.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::GetOf;
using testing::LeaseTest;
using testing::Task;

class FailedTaskTest : public LeaseTest {};

// It may be what kills them.
TEST_F(FailedTaskTest, ATaskWithWhichThreeClientsWereLostIsNamedOnce) {
  for (const std::int64_t number : {1, 2}) d->PutOne("m", Task(Key{"t", number}));
  for (const char* client : {"1", "2", "3", "4", "5", "6"}) {
    d->Join(client);
    EXPECT_EQ(Take(client).key, (Key{"t", 1}));
    EXPECT_EQ(Take(client).key, (Key{"t", 2})) << "it has not begun this one";
    d->Lose(client);
    EXPECT_EQ(d->notices["m"].size(), client < std::string("3") ? 0u : 1u);
  }
  ASSERT_EQ(d->notices["m"].size(), 1u);
  const Notice& notice = d->notices["m"][0];
  EXPECT_EQ(notice.kind, Notice::Kind::kMistrusted);
  EXPECT_EQ(notice.key, (Key{"t", 1}));
  EXPECT_EQ(notice.by, "3");
  EXPECT_NE(notice.text.find("3 clients were lost while they held it"), std::string::npos);
  EXPECT_TRUE(CanTake("a")) << "it stays ready";
}

TEST_F(FailedTaskTest, AClientThatReturnsWasNotKilledByItsTask) {
  d->PutOne("m", Task(Key{"t", 1}));
  for (int i = 0; i < 5; ++i) {
    Take("a");
    d->Lose("a");
    d->Join("a");
  }
  EXPECT_TRUE(d->notices["m"].empty());
}

TEST_F(FailedTaskTest, AFailedTaskGoesToOthersFirst) {
  EXPECT_FALSE(CanTake("b"));  // so b counts as a client that asks for tasks
  d->PutOne("m", Task(Key{"t", 1}));
  EXPECT_EQ(FailIt("a", Take("a")), LeaseStatus::kOk);
  EXPECT_FALSE(CanTake("a"));
  EXPECT_EQ(FailIt("a", {Key{"t", 1}, 1}), LeaseStatus::kStale);
  EXPECT_EQ(Take("b").key, (Key{"t", 1}));
}

TEST_F(FailedTaskTest, AFailedTaskComesBackToItsClientInTheEnd) {
  EXPECT_FALSE(CanTake("b"));
  d->PutOne("m", Task(Key{"t", 1}));
  FailIt("a", Take("a"));
  const RequestId waiting = d->Send("a", GetOf(Every("t")));
  EXPECT_EQ(d->space.NextDeadlineUs(), SpaceLimits{}.default_lease_us);
  d->Advance(SpaceLimits{}.default_lease_us - 1);
  EXPECT_FALSE(d->ReplyTo("a", waiting));
  d->Advance(1);
  EXPECT_EQ(d->Granted("a", waiting).key, (Key{"t", 1}));
}

TEST_F(FailedTaskTest, ABadDeviceLeavesAFailedTaskToOneThatIsBusy) {
  Tuple task = Task(Key{"t", 1});
  task.task->lease_us = 500'000;
  d->PutOne("m", Task(Key{"t", 0}));
  const LeaseRef long_one = Take("b");
  d->PutOne("m", task);
  FailIt("a", Take("a"));
  d->Send("a", GetOf(Every("t")));
  d->Advance(400'000);
  d->Done("b", long_one);
  EXPECT_EQ(Take("b").key, (Key{"t", 1}));
}

TEST_F(FailedTaskTest, AFailedTaskComesBackAtOnceIfThereIsNobodyElse) {
  d->PutOne("m", Task(Key{"t", 1}));
  FailIt("a", Take("a"));
  EXPECT_TRUE(CanTake("a"));
}

TEST_F(FailedTaskTest, ATaskThatFailsTooOftenIsParked) {
  d->PutOne("m", Task(Key{"t", 1}, {}));
  for (int i = 0; i < 3; ++i) FailIt("a", Take("a"));
  EXPECT_FALSE(CanTake("b"));
  EXPECT_EQ(d->space.GetStatistics().tasks_parked, 1u);
  EXPECT_EQ(d->counters().failed, 3u);
  ASSERT_EQ(d->notices["m"].size(), 1u);
  const Notice& notice = d->notices["m"][0];
  EXPECT_EQ(notice.kind, Notice::Kind::kParked);
  EXPECT_EQ(notice.by, "a");
  EXPECT_EQ(notice.text, "out of memory");
  EXPECT_EQ(d->PutOne("m", Task(Key{"t", 1})), PutStatus::kDuplicate);
  EXPECT_EQ(d->Ask<RetireReply>("m", Retire{Every("t"), false}).removed, 1u);
  EXPECT_EQ(d->PutOne("m", Task(Key{"t", 1})), PutStatus::kStored);
  EXPECT_EQ(Take("a").key, (Key{"t", 1}));
}

}  // namespace
}  // namespace tuplespace
