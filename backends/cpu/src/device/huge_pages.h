// HugePages: memory for large buffers out of regions that begin at huge pages, and whose kernel may
// use these. Kernels walk down rows that are pages apart; with pages of 4 KiB each step misses the
// translation buffer, which costs a virtual machine two walks through page tables.
//
//   region  | buffer | buffer |   given back   | buffer | not yet given ... |
//           ^ 2 MiB aligned
//
// A region goes when all its buffers are back; until then the pages of what was given back are the
// system's again, and nothing else is put there. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace acan {

class HugePages {
 public:
  static constexpr std::size_t kPageBytes = 2 << 20;

  HugePages() = default;
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
    std::uint64_t given = 0;  // from its beginning on
    std::size_t buffers = 0;  // that are not back
  };
  using Regions = std::map<std::byte*, Region>;

  void Free(Regions::iterator region);

  Regions regions_;            // by their first byte
  std::byte* open_ = nullptr;  // the region that buffers come from
};

}  // namespace acan
