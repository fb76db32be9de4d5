#include <openssl/evp.h>

#include <array>
#include <new>

#include "acan/core/error.h"
#include "acan/manager/sha256.h"

namespace acan {
namespace {

EVP_MD_CTX* Context(void* context) {
  return static_cast<EVP_MD_CTX*>(context);
}

void Check(int result) {
  if (result != 1) throw FailureError("OpenSSL cannot compute SHA-256: is it disabled here?");
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw std::bad_alloc();
  if (EVP_DigestInit_ex(Context(context_), EVP_sha256(), nullptr) != 1) {
    EVP_MD_CTX_free(Context(context_));
    Check(0);
  }
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(Context(context_));
}

void Sha256::Add(const void* data, std::size_t bytes) {
  Check(EVP_DigestUpdate(Context(context_), data, bytes));
}

std::string Sha256::Hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  Check(EVP_DigestFinal_ex(Context(context_), digest.data(), &size));
  constexpr const char* kDigits = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

bool IsSha256(std::string_view text) {
  constexpr std::size_t kLength = 64;
  return text.size() == kLength &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace acan
