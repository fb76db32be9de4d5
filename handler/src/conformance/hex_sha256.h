// SHA-256 in hex. Throws std::runtime_error if OpenSSL fails.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace acan {

std::string HexSha256(std::span<const std::byte> bytes);

}  // namespace acan
