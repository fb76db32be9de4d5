#include "device/huge_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <iterator>

namespace acan {
namespace {

// Address space only: the system gives each page when it is first written.
constexpr std::uint64_t kRegionBytes = 32u << 20;

std::uint64_t RoundUp(std::uint64_t bytes, std::uint64_t step) {
  return (bytes + step - 1) / step * step;
}

}  // namespace

HugePages::HugePages() : HugePages(static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))) {}

HugePages::HugePages(std::uint64_t small_page_bytes) : small_page_bytes_(small_page_bytes) {}

HugePages::~HugePages() {
  for (const auto& [first, region] : regions_) std::free(first);
}

void* HugePages::Take(std::uint64_t bytes) {
  auto at = regions_.find(open_);
  if (at == regions_.end() || at->second.bytes - at->second.given < bytes) {
    const std::uint64_t size = std::max(kRegionBytes, RoundUp(bytes, kPageBytes));
    void* memory = nullptr;
    if (posix_memalign(&memory, kPageBytes, size) != 0) return nullptr;
    madvise(memory, size, MADV_HUGEPAGE);  // only a hint; its failure changes nothing else
    if (at != regions_.end() && at->second.buffers == 0) Free(at);
    open_ = static_cast<std::byte*>(memory);
    at = regions_.emplace(open_, Region{size, 0, 0}).first;
  }
  Region& region = at->second;
  std::byte* const memory = at->first + region.given;
  region.given += bytes;
  ++region.buffers;
  return memory;
}

void HugePages::Give(void* memory, std::uint64_t bytes) {
  auto* const first = static_cast<std::byte*>(memory);
  const auto at = std::prev(regions_.upper_bound(first));
  assert(first + bytes <= at->first + at->second.given && at->second.buffers > 0);
  if (--at->second.buffers == 0) {
    Free(at);
    return;
  }
  // Returns only pages that belong to it entirely, since its neighbours are in use. The system
  // would round the end up to whole pages, and so drop the beginning of the next buffer.
  const auto address = reinterpret_cast<std::uintptr_t>(first);
  const std::uintptr_t begin = RoundUp(address, small_page_bytes_);
  const std::uintptr_t end = (address + bytes) / small_page_bytes_ * small_page_bytes_;
  if (begin < end) madvise(first + (begin - address), end - begin, MADV_DONTNEED);
}

void HugePages::Free(Regions::iterator region) {
  if (region->first == open_) open_ = nullptr;
  std::free(region->first);
  regions_.erase(region);
}

}  // namespace acan
