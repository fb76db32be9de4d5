// A fixture for tests of what one key can do: a manager, a handler that has completed a task, and
// clients of other keys, which take, fail and complete tasks.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "space_driver.h"

namespace tuplespace::testing {

inline constexpr std::int64_t kLeaseUs = 1'000;
inline constexpr SpaceLimits kLimits;

// "m" puts tasks; "handler/0" has the key "handler" and has completed a task.
class KeyTrustTest : public ::testing::Test {
 protected:
  KeyTrustTest() {
    d.Join("m");
    Join("handler/0");
    PutTask();
    CompleteOne("handler/0");
  }
  // The part before "/" is the name of the key.
  void Join(const ClientId& client) {
    d.Step(ClientJoined{client, client.substr(0, client.find('/')), {}});
    EXPECT_TRUE(d.GetNow(client, Every("t"), 0).empty());  // it asks, but no task fits
  }
  void PutTask(std::int64_t lease_us = kLeaseUs) {
    const std::int64_t number = next_++;
    Tuple task = Making(Task(Key{"t", number}, {}, 1), {Key{"r", number}});
    task.task->lease_us = lease_us;
    ASSERT_EQ(d.PutOne("m", task), PutStatus::kStored);
  }
  std::vector<Grant> Take(const ClientId& client, std::uint32_t count = 1) {
    return d.GetNow(client, Every("t"), UINT64_MAX, count);
  }
  std::size_t CanTake(const ClientId& client, std::uint32_t count = 1) {
    const std::vector<Grant> grants = Take(client, count);
    for (const Grant& grant : grants) d.Ask<LeaseReply>(client, Release{{grant.key, grant.fence}});
    return grants.size();
  }
  void Fail(const ClientId& client, const Grant& grant) {
    d.Ask<LeaseReply>(client, tuplespace::Fail{{grant.key, grant.fence}, "no"});
  }
  void FailOne(const ClientId& client) {
    const std::vector<Grant> grants = Take(client);
    ASSERT_EQ(grants.size(), 1u) << client;
    Fail(client, grants[0]);
  }
  void Complete(const ClientId& client, const Grant& grant) {
    const Key result{"r", std::get<std::int64_t>(grant.key.Fields()[1])};
    EXPECT_EQ(d.Done(client, {grant.key, grant.fence}, {Plain(result)}).lease, LeaseStatus::kOk);
  }
  void CompleteOne(const ClientId& client) {
    const std::vector<Grant> grants = Take(client);
    ASSERT_EQ(grants.size(), 1u) << client;
    Complete(client, grants[0]);
  }
  // Makes a client of the key get benched, and lets another client do the tasks that it failed.
  void Offend(const ClientId& client) {
    const std::uint64_t before = d.counters().benched;
    while (d.counters().benched == before) {
      PutTask();
      FailOne(client);
      CompleteOne("handler/0");
    }
  }
  std::uint64_t Parked() { return d.space.GetStatistics().tasks_parked; }

  SpaceDriver d;
  std::int64_t next_ = 0;
};

}  // namespace tuplespace::testing
