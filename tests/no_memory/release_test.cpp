// Memory that is no longer needed is given back in destructors, where an exception would end the
// process. So this must work when there is no memory at all.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <new>
#include <vector>

#include "device/host_memory.h"
#include "failing_new.h"
#include "release_queue.h"
#include "tuplespace/shared_pool.h"

namespace acan {
namespace {

using testing::FailingNew;
using tuplespace::SharedPool;

TEST(ReleaseWithoutMemory, TheTestMakesNewFail) {
  const auto allocate = [] { return std::make_unique<std::vector<int>>(); };
  {
    const FailingNew no_memory;
    EXPECT_THROW(allocate(), std::bad_alloc);
  }
  EXPECT_NE(allocate(), nullptr);
}

TEST(ReleaseWithoutMemory, BlocksOfASharedPoolBecomeFreeOrGo) {
  constexpr std::uint64_t kBytes = 512 << 10;
  constexpr int kBlocks = 20;  // of which half may be kept
  const auto pool = SharedPool::Make({.free_bytes = kBlocks / 2 * kBytes});
  for (int round = 0; round < 3; ++round) {
    std::vector<SharedPool::Block> blocks;
    for (int i = 0; i < kBlocks; ++i) {
      blocks.push_back(pool->Allocate(kBytes));
      ASSERT_NE(blocks.back(), nullptr);
      pool->Lend(*blocks.back());
    }
    EXPECT_EQ(pool->counts().free_bytes, 0u);
    const FailingNew no_memory;
    for (SharedPool::Block& block : blocks) {
      pool->Freed(block->id, 1);
      block = nullptr;
    }
  }
  EXPECT_EQ(pool->counts().free_bytes, kBlocks / 2 * kBytes);
  EXPECT_EQ(pool->counts().segments, kBlocks / 2u);
  EXPECT_EQ(pool->counts().reused, 2 * kBlocks / 2u);
  EXPECT_EQ(pool->TakeDropped().size(), 3 * kBlocks / 2u);
  {
    const FailingNew no_memory;
    pool->TrimFree(0);
  }
  EXPECT_EQ(pool->counts().segments, 0u);
  EXPECT_EQ(pool->TakeDropped().size(), kBlocks / 2u);
}

TEST(ReleaseWithoutMemory, TheEndOfResultsIsReported) {
  const auto queue = std::make_shared<ReleaseQueue>(nullptr);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<ReleaseToken>> tokens;
    for (FlightId flight = 0; flight < 100; ++flight) {
      tokens.push_back(std::make_unique<ReleaseToken>(queue, flight));
    }
    {
      const FailingNew no_memory;
      for (std::unique_ptr<ReleaseToken>& token : tokens) token = nullptr;
    }
    EXPECT_EQ(queue->Take().size(), 100u);
    EXPECT_TRUE(queue->Take().empty());
  }
}

// Buffers that cannot be kept for reuse go back to the system.
TEST(ReleaseWithoutMemory, BuffersOfACpuAreGivenBack) {
  constexpr std::uint64_t kBytes = 1 << 20;
  const auto memory = std::make_shared<HostMemory>(4 * kBytes);
  for (int round = 0; round < 10; ++round) {
    memory->Charge(kBytes);
    void* const buffer = memory->Take(kBytes);
    memory->Release(kBytes);
    const FailingNew no_memory;
    memory->Give(buffer, kBytes);
  }
}

// As under `ulimit -v`: the system gives less than the limit of the device.
TEST(BuffersOfACpu, AreGivenBackForAnother) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs more address space than any limit leaves";
#endif
  constexpr std::uint64_t kMiB = 1 << 20;
  const auto memory = std::make_shared<HostMemory>(1024 * kMiB);
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit few{pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + 500 * kMiB,
                   before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &few), 0);
  void* taken = nullptr;
  try {
    memory->Give(memory->Take(300 * kMiB), 300 * kMiB);
    taken = memory->Take(301 * kMiB);
  } catch (const OutOfMemory& error) {
    ADD_FAILURE() << error.what();
  }
  EXPECT_THROW(memory->Take(600 * kMiB), OutOfMemory) << "nothing is kept that could help";
  ::setrlimit(RLIMIT_AS, &before);
  if (taken != nullptr) memory->Give(taken, 301 * kMiB);
}

}  // namespace
}  // namespace acan
