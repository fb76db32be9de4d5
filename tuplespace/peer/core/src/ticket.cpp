#include "ticket.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cassert>
#include <cstring>
#include <stdexcept>

namespace tuplespace {

namespace {

constexpr std::size_t kTimeBytes = 8;
constexpr std::size_t kMacBytes = 32;
static_assert(kTimeBytes + kMacBytes == kTicketBytes);
constexpr std::string_view kPurpose = "tuplespace ticket 1";

template <typename Number>
void Append(Number number, std::string& to) {
  for (std::size_t i = 0; i < sizeof(number); ++i) {
    to.push_back(static_cast<char>(number >> (8 * i) & 0xff));
  }
}

void AppendSized(std::string_view bytes, std::string& to) {
  Append(static_cast<std::uint32_t>(bytes.size()), to);
  to += bytes;
}

std::string MacOf(std::string_view secret, const TicketClaims& claims, std::uint64_t expires_us) {
  std::string what(kPurpose);
  Append(claims.session, what);
  Append(expires_us, what);
  for (const std::string_view part : {claims.reader, claims.reader_public_key, claims.key}) {
    AppendSized(part, what);
  }
  std::string mac(kMacBytes, '\0');
  unsigned int bytes = kMacBytes;
  const auto* const made = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                reinterpret_cast<const unsigned char*>(what.data()), what.size(),
                                reinterpret_cast<unsigned char*>(mac.data()), &bytes);
  if (made == nullptr || bytes != kMacBytes) throw std::runtime_error("HMAC-SHA256 fails");
  return mac;
}

}  // namespace

std::string MakeTicketSecret() {
  std::string secret(kTicketSecretBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(secret.data()),
                 static_cast<int>(secret.size())) != 1) {
    throw std::runtime_error("the system has no random bytes for a secret");
  }
  return secret;
}

std::string MakeTicket(std::string_view secret, const TicketClaims& claims,
                       std::int64_t expires_us) {
  assert(expires_us >= 0);
  std::string ticket;
  Append(static_cast<std::uint64_t>(expires_us), ticket);
  return ticket + MacOf(secret, claims, static_cast<std::uint64_t>(expires_us));
}

TicketVerdict CheckTicket(std::string_view secret, std::string_view ticket,
                          const TicketClaims& claims, std::int64_t broker_now_us) {
  if (ticket.size() != kTicketBytes) return TicketVerdict::kForged;
  std::uint64_t expires_us = 0;
  for (std::size_t i = 0; i < kTimeBytes; ++i) {
    expires_us |= std::uint64_t{static_cast<unsigned char>(ticket[i])} << (8 * i);
  }
  const std::string mac = MacOf(secret, claims, expires_us);
  if (CRYPTO_memcmp(mac.data(), ticket.data() + kTimeBytes, kMacBytes) != 0) {
    return TicketVerdict::kForged;
  }
  const bool ended = broker_now_us >= 0 && static_cast<std::uint64_t>(broker_now_us) >= expires_us;
  return ended ? TicketVerdict::kExpired : TicketVerdict::kGood;
}

}  // namespace tuplespace
