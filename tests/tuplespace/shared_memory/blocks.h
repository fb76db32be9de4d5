// Payloads of one size for the tests of shared memory.
#pragma once

#include <cstddef>
#include <string>

#include "tuplespace/payload.h"
#include "tuplespace/shared_pool.h"

namespace tuplespace {

inline constexpr std::size_t kLarge = 1 << 20;

inline std::string Bytes(char value) {
  return std::string(kLarge, value);
}

inline Payload InBlock(SharedPool& pool, char value) {
  return pool.CopyOf(Payload::Copy(Bytes(value)));
}

}  // namespace tuplespace
