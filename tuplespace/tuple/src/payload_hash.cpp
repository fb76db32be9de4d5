#include <fmt/format.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // the same hash with the vectors that this processor has
#else
#include <xxhash.h>
#endif

#include <new>

#include "tuplespace/payload.h"

namespace tuplespace {

PayloadHash HashOf(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

void PayloadHasher::Free::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

PayloadHasher::PayloadHasher() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void PayloadHasher::Add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

PayloadHash PayloadHasher::Hash() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return {hash.low64, hash.high64};
}

std::string PayloadHash::ToString() const {
  return fmt::format("{:016x}{:016x}", high, low);
}

}  // namespace tuplespace
