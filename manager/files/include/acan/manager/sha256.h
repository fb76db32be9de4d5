// Sha256: the hash by which files and weights are known.
#pragma once

#include <cstddef>
#include <string>

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

}  // namespace acan
