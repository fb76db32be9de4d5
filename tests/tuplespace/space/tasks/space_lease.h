// For tests of leases: a manager "m" and two clients that take its tasks.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "space_driver.h"

namespace tuplespace::testing {

class LeaseTest : public ::testing::Test {
 protected:
  void SetUp() override { Begin({}); }
  void Begin(SpaceLimits limits) {
    d = std::make_unique<SpaceDriver>(limits);
    for (const char* client : {"m", "a", "b"}) d->Join(client);
  }
  // Returns what it has put.
  Tuple PutWithLease(std::int64_t lease_us, Tuple task) {
    task.task->lease_us = lease_us;
    d->PutOne("m", task);
    return task;
  }
  LeaseRef Take(const ClientId& client) { return d->TakeNow(client, Every("t")); }
  bool CanTake(const ClientId& client) { return !d->GetNow(client, Every("t")).empty(); }
  LeaseStatus FailIt(const ClientId& client, const LeaseRef& lease) {
    return d->Ask<LeaseReply>(client, Fail{lease, "out of memory"}).lease;
  }

  std::unique_ptr<SpaceDriver> d;
};

}  // namespace tuplespace::testing
