// Results that do not have their hashes, which the broker refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "space_driver.h"

namespace tuplespace {
namespace {

using ::testing::ElementsAre;
using testing::Every;
using ::testing::HasSubstr;
using testing::Making;
using testing::Plain;
using testing::SpaceDriver;
using testing::Task;

TEST(DamagedResults, TheirMakerHasFailedTheTaskAndIsNamed) {
  SpaceDriver d;
  for (const char* client : {"m", "good", "bad"}) d.Join(client);
  EXPECT_TRUE(d.GetNow("good", Every("t")).empty());
  ASSERT_EQ(d.PutOne("m", Making(Task(Key{"t", 1}), {Key{"r", 1}})), PutStatus::kStored);
  const LeaseRef lease = d.TakeNow("bad", Every("t"));
  d.Step(ResultsDamaged{"bad", lease, "damaged"});
  EXPECT_EQ(d.counters().false_completions, 1u);
  EXPECT_EQ(d.counters().failed, 1u);
  ASSERT_EQ(d.notices["m"].size(), 1u);
  EXPECT_EQ(d.notices["m"][0].kind, Notice::Kind::kMistrusted);
  EXPECT_EQ(d.notices["m"][0].by, "bad");
  EXPECT_THAT(d.notices["m"][0].text, HasSubstr("hashes"));
  const LeaseRef next = d.TakeNow("good", Every("t"));
  // Neither a lease that is over nor one of another client is affected, nor a client that is gone.
  d.Step(ResultsDamaged{"bad", lease, "damaged"});
  d.Step(ResultsDamaged{"bad", next, "damaged"});
  d.Step(ResultsDamaged{"nobody", next, "damaged"});
  EXPECT_EQ(d.counters().false_completions, 1u);
  EXPECT_THAT(d.Done("good", next, {Plain(Key{"r", 1}, "right")}).results,
              ElementsAre(PutStatus::kStored));
}

TEST(DamagedResults, APlainTupleStaysLeased) {
  SpaceDriver d;
  d.Join("a");
  d.PutOne("a", Plain(Key{"lock", 1}));
  const LeaseRef lease = d.TakeNow("a", Every("lock"));
  d.Step(ResultsDamaged{"a", lease, "damaged"});
  EXPECT_EQ(d.counters().failed, 0u);
  EXPECT_EQ(d.Done("a", lease).lease, LeaseStatus::kOk);
}

}  // namespace
}  // namespace tuplespace
