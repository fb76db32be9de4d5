// Chains of calls that run part by part.
#include "row_chain.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace acan {
namespace {

constexpr std::int32_t kRows = 16;

// Calls that have a buffer each.
Task Scales(std::int32_t calls) {
  Task task;
  task.block = 16;
  for (std::int32_t i = 0; i < calls; ++i) {
    task.buffers.push_back({kRows, 1});
    const View all{i, 0, 0, kRows, 1};
    Call call;
    call.kernel = Kernel::kScale;
    call.views = {all, all};
    task.calls.push_back(std::move(call));
  }
  return task;
}

TEST(RowChainTest, HasTheCallsOfAnyUsualTask) {
  const RowChain chain = FindRowChain(Scales(100), 0);
  EXPECT_EQ(chain.count, 100u);
  EXPECT_EQ(chain.steps, 100u);
  EXPECT_EQ(chain.samples, kRows);
  EXPECT_EQ(chain.bytes, 100 * kRows * 4);
}

// To find a chain takes the square of its length.
TEST(RowChainTest, IsCutWhereItBecomesLong) {
  const Task task = Scales(3000);
  std::size_t at = 0;
  while (at < task.calls.size()) {
    const RowChain chain = FindRowChain(task, at);
    ASSERT_GT(chain.count, 0u) << at;
    ASSERT_LE(chain.count, 512u) << at;
    at += chain.count;
  }
  EXPECT_EQ(at, task.calls.size());
}

}  // namespace
}  // namespace acan
