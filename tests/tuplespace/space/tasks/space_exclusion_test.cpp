// Tasks that exclude clients.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "space_lease.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::GetOf;
using testing::LeaseTest;
using testing::Plain;
using testing::Task;

class ExclusionTest : public LeaseTest {};

Tuple TaskNotBy(Key key, std::vector<ClientId> clients, std::vector<Key> inputs = {},
                std::int32_t affinity = -1) {
  Tuple tuple = Task(std::move(key), std::move(inputs), 0, affinity);
  tuple.task->not_by = std::move(clients);
  return tuple;
}

TEST_F(ExclusionTest, ATaskIsKeptFromWhomItNames) {
  const RequestId waiting = d->Send("a", GetOf(Every("t")));
  d->PutOne("m", TaskNotBy(Key{"t", 1}, {"b", "a", "a"}));
  EXPECT_FALSE(d->ReplyTo("a", waiting));
  EXPECT_FALSE(CanTake("b"));
  const auto grants = d->GetNow("m", Every("t"));
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_TRUE(grants[0].task->not_by.empty());  // a grant does not show the exclusions
}

TEST_F(ExclusionTest, ATaskStaysKeptFromThemWhateverBecomesOfIt) {
  d->PutOne("m", Plain(Key{"x", 1}));
  d->Ask<Ok>("a", Hold{{Key{"x", 1}}, {}});
  EXPECT_FALSE(CanTake("a"));  // a asks for this pattern and holds the tile
  EXPECT_FALSE(CanTake("b"));
  d->PutOne("m", TaskNotBy(Key{"t", 1}, {"a"}, {Key{"x", 1}}, 0));
  EXPECT_FALSE(CanTake("a"));
  EXPECT_EQ(FailIt("b", Take("b")), LeaseStatus::kOk);
  EXPECT_FALSE(CanTake("a"));
  d->Advance(1'000'000);
  EXPECT_FALSE(CanTake("a"));
  d->Lose("a");
  d->Join("a");
  EXPECT_FALSE(CanTake("a"));
  EXPECT_TRUE(CanTake("b"));
}

TEST_F(ExclusionTest, ATaskIsKeptFromAllClientsOfAKey) {
  for (const char* client : {"evil/0", "evil/1", "evil2/0"}) d->Join(client);
  const RequestId waiting = d->Send("evil/0", GetOf(Every("t")));
  d->PutOne("m", Plain(Key{"x", 1}));
  d->Ask<Ok>("evil/0", Hold{{Key{"x", 1}}, {}});
  d->PutOne("m", TaskNotBy(Key{"t", 1}, {"evil/"}, {Key{"x", 1}}, 0));
  EXPECT_FALSE(d->ReplyTo("evil/0", waiting));
  EXPECT_FALSE(CanTake("evil/1"));
  EXPECT_EQ(FailIt("evil2/0", Take("evil2/0")), LeaseStatus::kOk);
  EXPECT_FALSE(CanTake("evil/1"));
  EXPECT_TRUE(CanTake("evil2/0"));  // at once, since no other client could take it
}

TEST_F(ExclusionTest, TooManyExclusionsAreRefused) {
  SpaceLimits limits;
  limits.task_exclusions = 2;
  Begin(limits);
  const auto error = d->Ask<RequestError>("m", Put{{TaskNotBy(Key{"t", 1}, {"a", "b", "c"})}});
  EXPECT_EQ(error.code, ErrorCode::kTooLarge);
  EXPECT_NE(error.text.find("limits.task_exclusions"), std::string::npos) << error.text;
}

}  // namespace
}  // namespace tuplespace
