// How two processes that each keep a probe (memfd.h) show each other which process they are, and
// that they see the other one's files, while what is in the probes stays there: each proof is an
// HMAC-SHA256 whose secret is what a probe holds.
//
//   message         secret in          the HMAC is of               numbers behind that
//   Hello           client's probe     "tuplespace hello"           nonce (8), pid (4), fd (4)
//   Welcome         broker's probe     "tuplespace welcome"         nonce (8), pid (4), fd (4)
//   Welcome         client's probe     "tuplespace broker sees"     nonce (8)
//   ClientSegments  broker's probe     "tuplespace client sees"     session (8)
//
// All numbers are little endian; pid and fd are those of the sender. Pure. IsSameMac compares.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "envelope.h"

namespace tuplespace {

// `offer` says where the probe with this secret is: only who made it knows that and the secret.
std::string HelloProof(std::string_view secret, std::uint64_t nonce, const Sharing& offer);
std::string WelcomeProof(std::string_view secret, std::uint64_t nonce, const Sharing& answer);

// Of what the sender found in the receiver's probe.
std::string BrokerSeesProof(std::string_view secret, std::uint64_t nonce);
std::string ClientSeesProof(std::string_view secret, std::uint64_t session);

}  // namespace tuplespace
