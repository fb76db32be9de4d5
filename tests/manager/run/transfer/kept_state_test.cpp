// KeptState with a real broker in this process: one manager puts, another one reads.
#include "acan/manager/kept_state.h"

#include <gtest/gtest.h>

#include "space_fixture.h"

namespace acan {
namespace {

using KeptStateTest = SpaceTest;

RunState StateAfter(std::int64_t version) {
  RunState state;
  state.version = version;
  state.train_loss = 0.25;
  state.tasks_done = 7 * version;
  state.seconds = 1.5;
  state.failures = 2;
  state.conflicts = {{"(\"run\", 3)", "h/1 and h/2"}};
  return state;
}

TEST_F(KeptStateTest, TheNewestIsReadAndOthersGo) {
  KeptState kept(Submit(), "job", "run");
  // More than ten, because numbers are compared as numbers, not as text.
  for (std::int64_t version = 1; version <= 12; ++version) kept.Put(StateAfter(version), 0);
  const std::optional<RunState> found = KeptState::Read(*client_, "job", "run");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(TextOf(*found), TextOf(StateAfter(12)));
  EXPECT_EQ(client_->CountOf(KeptState::AllOf("job")), 1u);
  EXPECT_FALSE(KeptState::Read(*client_, "job", "another").has_value());
}

TEST_F(KeptStateTest, IsDueAfterAWhileOrIfSomethingMustNotBeLost) {
  KeptState kept(Submit(), "job", "run");
  EXPECT_TRUE(kept.IsDue(5));
  kept.Put(StateAfter(1), 5);
  EXPECT_FALSE(kept.IsDue(6));
  EXPECT_TRUE(kept.IsDue(5 + 60'000'000));
  kept.MakeDue();
  EXPECT_TRUE(kept.IsDue(6));
}

// Nothing that another client may have put ends a manager.
TEST_F(KeptStateTest, WhatIsNoStateIsNotRead) {
  tuplespace::Tuple other;
  other.key = {"state", "job", "run", 1'000};
  other.payload = tuplespace::Payload::Copy("{\"version\":-1}");
  client_->Put({other});
  EXPECT_FALSE(KeptState::Read(*client_, "job", "run").has_value());
}

}  // namespace
}  // namespace acan
