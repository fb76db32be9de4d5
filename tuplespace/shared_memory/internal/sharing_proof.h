// How two processes, each with a probe (memfd.h), prove which process they are and that they see
// the other's files, without revealing the probes' contents. Each proof is an HMAC-SHA256 whose
// secret is the content of a probe:
//
//   message         secret in          the HMAC is of               numbers behind that
//   Hello           client's probe     "tuplespace hello"           nonce (8), pid (4), fd (4)
//   Welcome         broker's probe     "tuplespace welcome"         nonce (8), pid (4), fd (4)
//   Welcome         client's probe     "tuplespace broker sees"     nonce (8)
//   ClientSegments  broker's probe     "tuplespace client sees"     session (8)
//
// All numbers are little endian. pid and fd are the sender's. Pure. IsSameMac compares proofs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "envelope.h"

namespace tuplespace {

// `offer` says where the probe with this secret is. Only its maker knows both.
std::string HelloProof(std::string_view secret, std::uint64_t nonce, const Sharing& offer);
std::string WelcomeProof(std::string_view secret, std::uint64_t nonce, const Sharing& answer);

// Made with the secret that the sender found in the receiver's probe.
std::string BrokerSeesProof(std::string_view secret, std::uint64_t nonce);
std::string ClientSeesProof(std::string_view secret, std::uint64_t session);

}  // namespace tuplespace
