#include <fmt/format.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // the same hash with the vectors that this processor has
#else
#include <xxhash.h>
#endif

#include "tuplespace/payload.h"

namespace tuplespace {

PayloadHash HashOf(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

std::string PayloadHash::ToString() const {
  return fmt::format("{:016x}{:016x}", high, low);
}

}  // namespace tuplespace
