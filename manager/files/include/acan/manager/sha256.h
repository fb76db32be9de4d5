// Sha256: the hash that identifies files and weights.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace acan {

// Lower-case hex SHA-256 (OpenSSL).
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void Add(const void* data, std::size_t bytes);
  std::string Hex();  // ends the computation

 private:
  void* context_;
};

// Whether the text could be what Hex returns.
bool IsSha256(std::string_view text);

}  // namespace acan
