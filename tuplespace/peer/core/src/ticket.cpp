#include "ticket.h"

#include <openssl/rand.h>

#include <cassert>
#include <stdexcept>

#include "mac.h"

namespace tuplespace {

namespace {

constexpr std::size_t kTimeBytes = 8;
static_assert(kTimeBytes + kMacBytes == kTicketBytes);
constexpr std::string_view kPurpose = "tuplespace ticket 1";

void AppendSized(std::string_view bytes, std::string& to) {
  AppendNumber(static_cast<std::uint32_t>(bytes.size()), to);
  to += bytes;
}

std::string TicketMac(std::string_view secret, const TicketClaims& claims,
                      std::uint64_t expires_us) {
  std::string what(kPurpose);
  AppendNumber(claims.session, what);
  AppendNumber(expires_us, what);
  for (const std::string_view part : {claims.reader, claims.reader_public_key, claims.key}) {
    AppendSized(part, what);
  }
  return MacOf(secret, what);
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
  AppendNumber(static_cast<std::uint64_t>(expires_us), ticket);
  return ticket + TicketMac(secret, claims, static_cast<std::uint64_t>(expires_us));
}

TicketVerdict CheckTicket(std::string_view secret, std::string_view ticket,
                          const TicketClaims& claims, std::int64_t broker_now_us) {
  if (ticket.size() != kTicketBytes) return TicketVerdict::kForged;
  std::uint64_t expires_us = 0;
  for (std::size_t i = 0; i < kTimeBytes; ++i) {
    expires_us |= std::uint64_t{static_cast<unsigned char>(ticket[i])} << (8 * i);
  }
  const std::string mac = TicketMac(secret, claims, expires_us);
  if (!IsSameMac(mac, ticket.substr(kTimeBytes))) {
    return TicketVerdict::kForged;
  }
  const bool ended = broker_now_us >= 0 && static_cast<std::uint64_t>(broker_now_us) >= expires_us;
  return ended ? TicketVerdict::kExpired : TicketVerdict::kGood;
}

}  // namespace tuplespace
