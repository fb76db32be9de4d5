// BlockCache: blocks that are no longer in use, by size. Finding the warmest or the coldest block
// of a size takes a time that does not grow with the number of blocks, of which there may be
// thousands; finding the coldest of all takes time for each size. For one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

#include "memory/block.h"

namespace acan::cuda {

class BlockCache {
 public:
  bool empty() const { return bytes_ == 0; }
  std::uint64_t bytes() const { return bytes_; }

  // REQUIRES: it has bytes. If this throws, the caller still has the block.
  void Add(Block&& block);
  // All three return none if there is no such block. The warmest block was added last.
  std::optional<Block> TakeWarmest(std::uint64_t bytes);
  std::optional<Block> TakeColdest(std::uint64_t bytes);
  std::optional<Block> TakeColdest();  // of any size
  // The coldest of this size for which `suits` holds.
  template <typename Suits>
  std::optional<Block> TakeColdestThat(std::uint64_t bytes, Suits&& suits) {
    const auto size = sizes_.find(bytes);
    if (size == sizes_.end()) return std::nullopt;
    for (auto it = size->second.begin(); it != size->second.end(); ++it) {
      if (suits(it->block)) return Take(size, it);
    }
    return std::nullopt;
  }

 private:
  struct Cached {
    Block block;
    std::uint64_t number = 0;  // counts the blocks in the order in which they were added
  };
  using OfSize = std::deque<Cached>;  // the coldest first; never empty
  using Sizes = std::unordered_map<std::uint64_t, OfSize>;

  std::optional<Block> Take(Sizes::iterator size, const OfSize::iterator& cached);

  Sizes sizes_;
  std::uint64_t bytes_ = 0;
  std::uint64_t added_ = 0;
};

}  // namespace acan::cuda
