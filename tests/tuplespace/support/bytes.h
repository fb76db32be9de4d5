// The bytes of a text that stands in for a message.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tuplespace {

inline std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace tuplespace
