#include "memory/block_cache.h"

#include <algorithm>
#include <iterator>

namespace acan::cuda {

void BlockCache::Add(Block&& block) {
  const auto size = sizes_.try_emplace(block.bytes).first;
  try {
    size->second.emplace_back();
  } catch (...) {
    if (size->second.empty()) sizes_.erase(size);
    throw;
  }
  bytes_ += block.bytes;
  size->second.back() = {std::move(block), added_++};
}

std::optional<Block> BlockCache::TakeWarmest(std::uint64_t bytes) {
  const auto size = sizes_.find(bytes);
  if (size == sizes_.end()) return std::nullopt;
  return Take(size, std::prev(size->second.end()));
}

std::optional<Block> BlockCache::TakeColdest(std::uint64_t bytes) {
  return TakeColdestThat(bytes, [](const Block&) { return true; });
}

std::optional<Block> BlockCache::TakeColdest() {
  const auto colder = [](const Sizes::value_type& a, const Sizes::value_type& b) {
    return a.second.front().number < b.second.front().number;
  };
  const auto size = std::min_element(sizes_.begin(), sizes_.end(), colder);
  if (size == sizes_.end()) return std::nullopt;
  return Take(size, size->second.begin());
}

std::optional<Block> BlockCache::Take(Sizes::iterator size, const OfSize::iterator& cached) {
  std::optional<Block> block = std::move(cached->block);
  bytes_ -= block->bytes;
  size->second.erase(cached);
  if (size->second.empty()) sizes_.erase(size);
  return block;
}

}  // namespace acan::cuda
