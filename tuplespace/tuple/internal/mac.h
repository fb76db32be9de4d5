// Message authentication codes, by which a process proves that it knows a secret without sending
// it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tuplespace {

inline constexpr std::size_t kMacBytes = 32;

// HMAC-SHA256. Throws std::runtime_error if OpenSSL fails.
std::string MacOf(std::string_view secret, std::string_view what);

// Compares in a time that does not depend on which bytes differ.
bool IsSameMac(std::string_view one, std::string_view other);

// Appends `number`, little endian, to `to`.
template <typename Number>
void AppendNumber(Number number, std::string& to) {
  for (std::size_t i = 0; i < sizeof(number); ++i) {
    to.push_back(static_cast<char>(number >> (8 * i) & 0xff));
  }
}

}  // namespace tuplespace
