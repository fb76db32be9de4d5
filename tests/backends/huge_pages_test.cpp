// Memory of large buffers: buffers do not overlap, freed memory returns to the system, limits hold.
#include "device/huge_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "acan/cpu/cpu_device.h"

namespace acan::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// The number of small pages in [memory, memory + bytes) that are resident.
std::size_t PagesPresent(const void* memory, std::uint64_t bytes) {
  std::vector<unsigned char> present(bytes / 4096);
  EXPECT_EQ(mincore(const_cast<void*>(memory), bytes, present.data()), 0);
  std::size_t count = 0;
  for (const unsigned char page : present) count += page & 1u;
  return count;
}

TEST(HugePages, RegionsBeginAtHugePages) {
  HugePages pages;
  void* const first = pages.Take(kMiB);
  void* const second = pages.Take(64);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % HugePages::kPageBytes, 0u);
  EXPECT_EQ(static_cast<std::byte*>(second) - static_cast<std::byte*>(first),
            static_cast<std::ptrdiff_t>(kMiB));
  EXPECT_EQ(pages.regions(), 1u);
  void* const large = pages.Take(100 * kMiB + 64);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large) % HugePages::kPageBytes, 0u);
  EXPECT_EQ(pages.regions(), 2u);
  pages.Give(first, kMiB);
  EXPECT_EQ(pages.regions(), 2u);
  pages.Give(second, 64);
  EXPECT_EQ(pages.regions(), 1u);
  pages.Give(large, 100 * kMiB + 64);
  EXPECT_EQ(pages.regions(), 0u);
}

// Freeing one buffer returns its pages to the system while the buffers beside it keep theirs.
TEST(HugePages, PagesGoBackOneByOne) {
  HugePages pages;
  void* const first = pages.Take(4 * kMiB);
  void* const second = pages.Take(4 * kMiB);
  std::memset(first, 1, 4 * kMiB);
  std::memset(second, 2, 4 * kMiB);
  EXPECT_EQ(PagesPresent(first, 4 * kMiB), 1024u);
  pages.Give(first, 4 * kMiB);
  EXPECT_EQ(PagesPresent(first, 4 * kMiB), 0u);
  EXPECT_EQ(PagesPresent(second, 4 * kMiB), 1024u);
  EXPECT_EQ(static_cast<unsigned char*>(second)[4 * kMiB - 1], 2);
  pages.Give(second, 4 * kMiB);
}

// No two buffers overlap, and no buffer loses its contents when its neighbors are freed.
TEST(HugePages, BuffersAreApart) {
  HugePages pages;
  std::mt19937 draw(7);
  struct Buffer {
    unsigned char* data;
    std::uint64_t bytes;
    unsigned char value;
  };
  std::vector<Buffer> buffers;
  for (int i = 0; i < 400; ++i) {
    if (!buffers.empty() && draw() % 2 == 0) {
      const std::size_t which = draw() % buffers.size();
      const Buffer gone = buffers[which];
      for (const std::uint64_t at : {std::uint64_t{0}, gone.bytes / 2, gone.bytes - 1}) {
        ASSERT_EQ(gone.data[at], gone.value);
      }
      buffers.erase(buffers.begin() + static_cast<std::ptrdiff_t>(which));
      pages.Give(gone.data, gone.bytes);
      continue;
    }
    const std::uint64_t bytes = 64 * (1 + draw() % 40'000);
    auto* const data = static_cast<unsigned char*>(pages.Take(bytes));
    ASSERT_NE(data, nullptr);
    const auto value = static_cast<unsigned char>(draw());
    for (const std::uint64_t at : {std::uint64_t{0}, bytes / 2, bytes - 1}) data[at] = value;
    buffers.push_back({data, bytes, value});
  }
  for (const Buffer& each : buffers) pages.Give(each.data, each.bytes);
  EXPECT_EQ(pages.regions(), 0u);
}

// Memory that a device keeps for reuse is released when the limit requires it.
TEST(HugePages, KeptBuffersMakeRoom) {
  const auto device = MakeCpuDevice({1, 128 * kMiB, std::nullopt});
  const std::uint64_t room = device->budget().limit_bytes() - device->budget().used_bytes();
  for (const std::uint64_t pieces : {1, 7, 2, 30, 1}) {
    std::vector<BufferPtr> buffers;
    for (std::uint64_t i = 0; i < pieces; ++i) buffers.push_back(device->Allocate(room / pieces));
    EXPECT_THROW(device->Allocate(room / pieces), OutOfMemory);
  }
}

}  // namespace
}  // namespace acan::test
