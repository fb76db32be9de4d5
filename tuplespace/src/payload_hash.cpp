#include <fmt/format.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // the same hash with the vectors that this processor has
#else
#include <xxhash.h>
#endif

#include <memory>
#include <new>

#include "tuplespace/payload.h"

namespace tuplespace {

PayloadHash HashOf(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

struct PayloadHasher::State {
  State() {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh.get());
  }
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> xxh{XXH3_createState()};
};

PayloadHasher::PayloadHasher() : state_(std::make_unique<State>()) {}

PayloadHasher::~PayloadHasher() = default;

void PayloadHasher::Add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh.get(), bytes.data(), bytes.size());
}

PayloadHash PayloadHasher::Hash() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh.get());
  return {hash.low64, hash.high64};
}

std::string PayloadHash::ToString() const {
  return fmt::format("{:016x}{:016x}", high, low);
}

}  // namespace tuplespace
