// The sizes of memory for which plans are made.
#include "acan/manager/memory_sizes.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>
#include <vector>

namespace acan {
namespace {

using SomeHandlers = std::map<std::string, Capacity>;

constexpr std::uint64_t kMebibyte = 1 << 20;

Capacity HandlerWith(std::uint64_t memory_bytes, double gflops = 50) {
  Capacity capacity;
  capacity.memory_bytes = capacity.limit_bytes = memory_bytes;
  capacity.gflops = gflops;
  return capacity;
}

SomeHandlers HandlersWith(std::initializer_list<std::pair<int, std::uint64_t>> counts) {
  SomeHandlers handlers;
  for (const auto& [count, bytes] : counts) {
    for (int i = 0; i < count; ++i)
      handlers["id" + std::to_string(handlers.size())] = HandlerWith(bytes);
  }
  return handlers;
}

using MemoryList = std::vector<std::uint64_t>;

MemoryList SizesOf(const SomeHandlers& handlers) {
  MemoryList bytes;
  for (const MemorySize& size : MemorySizes(handlers)) bytes.push_back(size.bytes);
  return bytes;
}

TEST(MemorySizesTest, EachCountsTheHandlersThatHaveIt) {
  const SomeHandlers handlers =
      HandlersWith({{1, 1024 * kMebibyte}, {4, 64 * kMebibyte}, {10, kMebibyte}});
  const std::vector<MemorySize> sizes = MemorySizes(handlers);
  ASSERT_EQ(SizesOf(handlers), (MemoryList{1024 * kMebibyte, 64 * kMebibyte, kMebibyte}));
  EXPECT_DOUBLE_EQ(GflopsOf(sizes[0].speed), 50);
  EXPECT_DOUBLE_EQ(GflopsOf(sizes[1].speed), 5 * 50);
  EXPECT_DOUBLE_EQ(GflopsOf(sizes[2].speed), 15 * 50);
}

TEST(MemorySizesTest, SimilarAmountsAreOneSize) {
  EXPECT_EQ(SizesOf(HandlersWith({{1, 100 * kMebibyte}, {1, 99 * kMebibyte}, {1, 81 * kMebibyte}})),
            MemoryList{81 * kMebibyte});
  SomeHandlers handlers;
  for (std::uint64_t i = 0; i < 100; ++i) handlers[std::to_string(i)] = HandlerWith(kMebibyte + i);
  EXPECT_EQ(SizesOf(handlers), MemoryList{kMebibyte});
}

TEST(MemorySizesTest, ThereAreFewSizesForAllAmounts) {
  SomeHandlers handlers;
  for (int i = 0; i < 40; ++i) handlers[std::to_string(i)] = HandlerWith(1ull << i);
  handlers["none"] = HandlerWith(0);
  const MemoryList bytes = SizesOf(handlers);
  EXPECT_GE(bytes.size(), 2u);
  EXPECT_LE(bytes.size(), kMaxMemorySizes);
  EXPECT_EQ(bytes.back(), 0u);
}

TEST(MemorySizesTest, TheUsualSizeIsThatOfMostOfTheSpeed) {
  EXPECT_EQ(UsualSize(MemorySizes(HandlersWith({{3, 8 * kMebibyte}, {1, kMebibyte}}))), 0u);
  EXPECT_EQ(UsualSize(MemorySizes(HandlersWith({{2, 8 * kMebibyte}, {1, kMebibyte}}))), 1u);
  // Two cores suffice for two handlers. The third one adds no speed.
  SomeHandlers handlers = HandlersWith({{2, 8 * kMebibyte}, {1, kMebibyte}});
  for (auto& [id, capacity] : handlers) {
    capacity.machine = "m";
    capacity.cpus = {0, 1};
    capacity.busy_cpus = 1;
  }
  EXPECT_EQ(UsualSize(MemorySizes(handlers)), 0u);
}

TEST(MemorySizesTest, WithMemoryKeepsTheHandlersThatHaveIt) {
  const SomeHandlers handlers = HandlersWith({{2, 8 * kMebibyte}, {1, kMebibyte}});
  EXPECT_EQ(WithMemory(handlers, 8 * kMebibyte).size(), 2u);
  EXPECT_EQ(WithMemory(handlers, kMebibyte).size(), 3u);
}

}  // namespace
}  // namespace acan
