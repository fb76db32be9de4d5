#include "mac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <stdexcept>

namespace tuplespace {

std::string MacOf(std::string_view secret, std::string_view what) {
  std::string mac(kMacBytes, '\0');
  unsigned int bytes = kMacBytes;
  const auto* const made = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                reinterpret_cast<const unsigned char*>(what.data()), what.size(),
                                reinterpret_cast<unsigned char*>(mac.data()), &bytes);
  if (made == nullptr || bytes != kMacBytes) throw std::runtime_error("HMAC-SHA256 fails");
  return mac;
}

bool IsSameMac(std::string_view one, std::string_view other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace tuplespace
