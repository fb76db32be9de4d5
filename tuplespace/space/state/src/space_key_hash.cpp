#include "space_key_hash.h"

#define XXH_INLINE_ALL  // the library's own functions begin with what only long inputs need
#include <xxhash.h>

#include <random>

namespace tuplespace::internal {
namespace {

constexpr std::size_t kMostShortBytes = 240;  // XXH3 hashes longer inputs in a loop over stripes

}  // namespace

// A seed of XXH3 is added to a secret that everybody knows, so keys may collide for all seeds. A
// secret that is made of the seed has no such keys.
KeyHash::KeyHash(std::uint64_t secret) {
  static_assert(sizeof(secret_) >= XXH3_SECRET_SIZE_MIN);
  std::mt19937_64 random(secret);
  for (std::uint64_t& word : secret_) word = random();
}

std::size_t KeyHash::operator()(std::string_view bytes) const noexcept {
  if (bytes.size() > kMostShortBytes) return OfLong(bytes);
  return XXH3_64bits_withSecret(bytes.data(), bytes.size(), secret_.data(), sizeof(secret_));
}

// Another function of XXH3, so that the compiler leaves the loop out of the one above.
std::size_t KeyHash::OfLong(std::string_view bytes) const noexcept {
  return XXH3_128bits_withSecret(bytes.data(), bytes.size(), secret_.data(), sizeof(secret_)).low64;
}

}  // namespace tuplespace::internal
