// KeyHash: the hash of keys and of their parts in the tables of one space. It depends on a secret,
// as whoever can compute it can make keys that all collide, and a look-up would visit all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tuplespace::internal {

class KeyHash {
 public:
  explicit KeyHash(std::uint64_t secret);

  std::size_t operator()(std::string_view bytes) const noexcept;

 private:
  static constexpr std::size_t kSecretWords = 24;  // as many as XXH3 uses of its own secret

  std::size_t OfLong(std::string_view bytes) const noexcept;

  std::array<std::uint64_t, kSecretWords> secret_;
};

}  // namespace tuplespace::internal
