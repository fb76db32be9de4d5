// Memory of large buffers: buffers do not overlap, freed memory returns to the system, limits hold.
#include "device/huge_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "acan/cpu/cpu_device.h"

namespace acan::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::uint64_t SmallPageBytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// The number of small pages in [memory, memory + bytes) that are resident.
std::size_t PagesPresent(const void* memory, std::uint64_t bytes) {
  std::vector<unsigned char> present(bytes / SmallPageBytes());
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
  const std::uint64_t all = 4 * kMiB / SmallPageBytes();
  EXPECT_EQ(PagesPresent(first, 4 * kMiB), all);
  pages.Give(first, 4 * kMiB);
  EXPECT_EQ(PagesPresent(first, 4 * kMiB), 0u);
  EXPECT_EQ(PagesPresent(second, 4 * kMiB), all);
  EXPECT_EQ(static_cast<unsigned char*>(second)[4 * kMiB - 1], 2);
  pages.Give(second, 4 * kMiB);
}

// On systems with larger small pages, the pages that two buffers share stay. A multiple of this
// system's page size stands for theirs.
TEST(HugePages, SharedPagesStay) {
  const std::uint64_t page = 16 * SmallPageBytes();
  HugePages pages(page);
  const std::uint64_t bytes = 4 * kMiB + page / 16;  // the second buffer begins within a page
  auto* const first = static_cast<unsigned char*>(pages.Take(bytes));
  auto* const second = static_cast<unsigned char*>(pages.Take(bytes));
  auto* const third = static_cast<unsigned char*>(pages.Take(bytes));
  std::memset(first, 1, bytes);
  std::memset(second, 2, bytes);
  std::memset(third, 3, bytes);
  pages.Give(second, bytes);
  // The second buffer's own bytes in the pages at its ends show what the system dropped.
  const std::vector<unsigned char> kept_at_begin(second, second + page - page / 16);
  const std::vector<unsigned char> kept_at_end(second + bytes - page / 8, second + bytes);
  EXPECT_EQ(kept_at_begin, std::vector<unsigned char>(page - page / 16, 2));
  EXPECT_EQ(kept_at_end, std::vector<unsigned char>(page / 8, 2));
  EXPECT_EQ(second[bytes / 2], 0);  // given back
  EXPECT_EQ(first[bytes - 1], 1);
  EXPECT_EQ(third[0], 3);
  pages.Give(first, bytes);
  pages.Give(third, bytes);
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
