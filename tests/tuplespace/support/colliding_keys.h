// CollidingKeys: many keys of one hash. Anybody can compute them, as std::hash has no secret. In a
// hash table of so many, each look-up visits all of them, and a test that makes some for each key
// does not end within its time limit.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tuplespace/key.h"

namespace tuplespace {

// As many as a handler keeps results of 25 tasks.
inline constexpr std::size_t kCollidingKeys = 100'000;

// The state of libstdc++'s std::hash<std::string>, MurmurHash64A, after some blocks of 8 bytes.
class MurmurState {
 public:
  explicit MurmurState(std::size_t length) : state_(kSeed ^ length * kFactor) {}

  void Add(std::uint64_t block) { state_ = (state_ ^ Mixed(block * kFactor) * kFactor) * kFactor; }
  // The block that leads from here to `next`.
  std::uint64_t BlockTo(const MurmurState& next) const {
    return Mixed((state_ ^ next.state_ * kInverse) * kInverse) * kInverse;
  }

 private:
  static constexpr std::uint64_t kSeed = 0xc70f6907;
  static constexpr std::uint64_t kFactor = 0xc6a4a7935bd1e995;
  static constexpr std::uint64_t kInverse = 0x5f7a0ea7e59b19bd;
  static_assert(kFactor * kInverse == 1);

  static std::uint64_t Mixed(std::uint64_t value) { return value ^ value >> 47; }

  std::uint64_t state_;
};

// Keys of three fields for which `hashed` gives bytes of one hash. REQUIRES: `hashed` gives the
// key's bytes, or leaves out the second field.
inline std::vector<Key> CollidingKeys(const std::function<std::string(const Key&)>& hashed) {
  constexpr std::size_t kBlockBytes = sizeof(std::uint64_t);
  constexpr std::size_t kFirstNumber = 10'000'000;  // all numbers have as many digits as a block
  const auto key_of = [](std::string text) { return Key{"r", 1, std::move(text)}; };
  const auto block_at = [](const std::string& bytes, std::size_t begin) {
    std::uint64_t block = 0;
    std::memcpy(&block, bytes.data() + begin, kBlockBytes);
    return block;
  };
  const std::size_t begin = hashed(key_of("*")).find('*');
  const std::string filler((kBlockBytes - begin % kBlockBytes) % kBlockBytes, '*');
  const std::string shape = hashed(key_of(filler + std::string(2 * kBlockBytes, '*')));
  MurmurState common(shape.size());
  for (std::size_t at = 0; at < begin + filler.size(); at += kBlockBytes) {
    common.Add(block_at(shape, at));
  }
  std::vector<Key> keys;
  for (std::size_t number = kFirstNumber; keys.size() < kCollidingKeys; ++number) {
    std::string text = std::to_string(number);
    MurmurState state = common;
    state.Add(block_at(text, 0));
    const std::uint64_t block = state.BlockTo(common);
    text.append(reinterpret_cast<const char*>(&block), kBlockBytes);
    if (text.find('\0') == std::string::npos) keys.push_back(key_of(filler + text));  // else longer
  }
#ifdef __GLIBCXX__
  const std::hash<std::string> hash{};
  EXPECT_EQ(hash(hashed(keys.front())), hash(hashed(keys.back())));
#endif
  return keys;
}

}  // namespace tuplespace
