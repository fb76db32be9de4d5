// The order of supplies, and how many of them may be open.
#include "supply_queue.h"

#include <gtest/gtest.h>

namespace acan {
namespace {

using tuplespace::Key;

TEST(SupplyQueueTest, WhatSomebodyWaitsForIsFirst) {
  SupplyQueue queue;
  for (int i = 0; i < 3; ++i) queue.Add(Key{"tile", i});
  queue.Want(Key{"tile", 1});
  queue.Want(Key{"tile", 1});
  queue.Want(Key{"tile", 7});  // is not in the queue
  EXPECT_EQ(queue.Take().key, (Key{"tile", 1}));
  EXPECT_EQ(queue.Take().key, (Key{"tile", 0}));
  EXPECT_EQ(queue.Take().key, (Key{"tile", 2}));
  EXPECT_FALSE(queue.MayBegin());
}

// The broker may have no room for what nobody waits for.
TEST(SupplyQueueTest, WhatSomebodyWaitsForDoesNotWaitForAnswersToOthers) {
  SupplyQueue queue;
  for (int i = 0; i < 4; ++i) queue.Add(Key{"tile", i});
  queue.OnBegun(1, queue.Take().wanted, kMaxSuppliedBytes);
  EXPECT_FALSE(queue.MayBegin());
  queue.Want(Key{"tile", 2});
  queue.Want(Key{"tile", 3});
  ASSERT_TRUE(queue.MayBegin());
  const SupplyQueue::Entry entry = queue.Take();
  EXPECT_EQ(entry.key, (Key{"tile", 2}));
  EXPECT_TRUE(entry.wanted);
  queue.OnBegun(2, true, kMaxSuppliedBytes);
  EXPECT_FALSE(queue.MayBegin()) << "these have a limit, too";
  queue.OnAnswered(1);
  EXPECT_EQ(queue.Take().key, (Key{"tile", 1}));
  queue.OnAnswered(2);
  EXPECT_EQ(queue.Take().key, (Key{"tile", 3}));
}

TEST(SupplyQueueTest, ForgetsAll) {
  SupplyQueue queue;
  queue.Add(Key{"tile", 0});
  queue.Add(Key{"tile", 1});
  queue.OnBegun(5, queue.Take().wanted, kMaxSuppliedBytes);
  EXPECT_EQ(queue.Clear(), std::vector<tuplespace::RequestId>{5});
  EXPECT_FALSE(queue.MayBegin());
  queue.OnAnswered(5);  // late
  queue.Add(Key{"tile", 2});
  EXPECT_TRUE(queue.MayBegin());
}

}  // namespace
}  // namespace acan
