// HugePages: memory for large buffers, from regions that begin at huge pages and for which the
// kernel may use huge pages. Compute kernels walk down rows that are pages apart. With small pages
// each step misses the TLB, which in a virtual machine costs two walks through page tables.
//
//   region  | buffer | buffer |   given back   | buffer | not yet given ... |
//           ^ 2 MiB aligned
//
// A region is freed when all its buffers have been given back. Until then, the pages of a buffer
// that was given back are returned to the system, and nothing else is put there. One thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace acan {

class HugePages {
 public:
  static constexpr std::size_t kPageBytes = 2 << 20;

  HugePages();  // with the small pages of this system
  // REQUIRES: a multiple of the system's page size, which is 4 KiB on x86 and up to 64 KiB
  // elsewhere.
  explicit HugePages(std::uint64_t small_page_bytes);
  ~HugePages();
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;

  // Aligned to 64 bytes; null if the system has no more. REQUIRES: bytes is a multiple of 64.
  void* Take(std::uint64_t bytes);
  // REQUIRES: from Take, with as many bytes.
  void Give(void* memory, std::uint64_t bytes);

  std::size_t regions() const { return regions_.size(); }

 private:
  struct Region {
    std::uint64_t bytes = 0;
    std::uint64_t given = 0;  // bytes handed out, from the beginning on
    std::size_t buffers = 0;  // not yet given back
  };
  using Regions = std::map<std::byte*, Region>;

  void Free(Regions::iterator region);

  const std::uint64_t small_page_bytes_;
  Regions regions_;            // by their first byte
  std::byte* open_ = nullptr;  // the region that buffers come from
};

}  // namespace acan
