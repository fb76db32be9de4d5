// For tests of Gets: a manager "m" and three clients that ask for tasks.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "space_driver.h"

namespace tuplespace::testing {

class GetTest : public ::testing::Test {
 protected:
  void SetUp() override { Begin({}); }
  void Begin(SpaceLimits limits) {
    d = std::make_unique<SpaceDriver>(limits);
    for (const char* client : {"m", "a", "b", "c"}) d->Join(client);
  }
  RequestId Wait(const ClientId& client, std::uint64_t offer_bytes = UINT64_MAX) {
    return d->Send(client, GetOf(Every("t"), offer_bytes));
  }
  Key NextKey(const ClientId& client, std::uint64_t offer_bytes = UINT64_MAX) {
    const auto grants = d->GetNow(client, Every("t"), offer_bytes);
    return grants.empty() ? Key() : grants[0].key;
  }
  // Lets `client` ask for tasks, so that the space may keep tasks for it.
  void Introduce(const ClientId& client) { EXPECT_EQ(NextKey(client), Key()); }

  std::unique_ptr<SpaceDriver> d;
};

}  // namespace tuplespace::testing
