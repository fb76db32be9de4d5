// A fixture for payloads that stay with their makers: the client `owner` puts tasks, `gpu` keeps
// its results, and `other` reads.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "space_driver.h"

namespace tuplespace::testing {

inline const Key kResidentTile{"tile", 1};

inline Tuple Resident(Key key, std::uint64_t bytes = 5) {
  Tuple tuple = Plain(std::move(key));
  tuple.resident_bytes = bytes;
  return tuple;
}

inline Read ReadOf(Key key, std::int64_t wait_us = kForeverUs) {
  Read read{{Pattern::Of(key)}};
  read.wait_us = wait_us;
  return read;
}

class ResidentTest : public ::testing::Test {
 protected:
  void SetUp() override { Begin({}); }
  void Begin(SpaceLimits limits) {
    d = std::make_unique<SpaceDriver>(limits);
    for (const char* client : {"owner", "gpu", "other"}) d->Join(client);
  }
  // Lets `client` compute task `number` of `owner` and keep the result.
  void Make(const Key& result, std::int64_t number = 1, const ClientId& client = "gpu") {
    ASSERT_EQ(d->PutOne("owner", Making(Task(Key{"task", number}), {result})), PutStatus::kStored);
    const CompleteReply reply =
        d->Done(client, d->TakeNow(client, Every("task")), {Resident(result)});
    ASSERT_THAT(reply.results, ::testing::ElementsAre(PutStatus::kStored));
  }
  PutStatus SupplyOne(const ClientId& client, Tuple tuple) {
    return d->Ask<PutReply>(client, Supply{{std::move(tuple)}}).status.at(0);
  }
  std::vector<Notice::Kind> Kinds(const ClientId& client) {
    std::vector<Notice::Kind> kinds;
    for (const Notice& notice : d->notices[client]) kinds.push_back(notice.kind);
    return kinds;
  }
  std::unique_ptr<SpaceDriver> d;
};

}  // namespace tuplespace::testing
