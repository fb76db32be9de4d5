// Tickets: they prove to the holder of a payload, without a question to the broker, that a reader
// may have it. The broker and the holder share a secret. A ticket is its expiry time and an
// HMAC-SHA256 of what it allows:
//
//     ticket       bytes        the HMAC is of          bytes
//       expires_us   8            "tuplespace ticket 1"   19
//       HMAC        32            session                  8
//                                 expires_us               8
//                                 size of each, 4 bytes, and
//                                 the bytes: reader's id,
//                                 reader's public key, key
//
// All numbers are little endian. Pure, except MakeTicketSecret.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tuplespace {

inline constexpr std::size_t kTicketSecretBytes = 32;
inline constexpr std::size_t kTicketBytes = 40;

// What a ticket allows: `reader` may fetch the payload of a tuple.
struct TicketClaims {
  std::uint64_t session = 0;           // the holder's session, assigned by the broker
  std::string_view reader;             // its client id
  std::string_view reader_public_key;  // that of its connection; empty: without keys
  std::string_view key;                // the bytes of the tuple's key
};

// A random secret. Throws std::runtime_error if the system has no random bytes.
std::string MakeTicketSecret();

// REQUIRES: expires_us >= 0.
std::string MakeTicket(std::string_view secret, const TicketClaims& claims,
                       std::int64_t expires_us);

enum class TicketVerdict : std::uint8_t { kGood, kForged, kExpired };
// `broker_now_us` is the broker's clock. A ticket of any other size is forged. The time that this
// takes does not depend on which bytes are wrong.
TicketVerdict CheckTicket(std::string_view secret, std::string_view ticket,
                          const TicketClaims& claims, std::int64_t broker_now_us);

}  // namespace tuplespace
