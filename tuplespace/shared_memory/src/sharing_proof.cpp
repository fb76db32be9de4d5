#include "sharing_proof.h"

#include "mac.h"

namespace tuplespace {

namespace {

std::string ProofOf(std::string_view secret, std::string what, std::uint64_t number) {
  AppendNumber(number, what);
  return MacOf(secret, what);
}

std::string ProofOf(std::string_view secret, std::string what, std::uint64_t number,
                    const Sharing& own) {
  AppendNumber(number, what);
  AppendNumber(static_cast<std::uint32_t>(own.pid), what);
  AppendNumber(static_cast<std::uint32_t>(own.fd), what);
  return MacOf(secret, what);
}

}  // namespace

std::string HelloProof(std::string_view secret, std::uint64_t nonce, const Sharing& offer) {
  return ProofOf(secret, "tuplespace hello", nonce, offer);
}

std::string WelcomeProof(std::string_view secret, std::uint64_t nonce, const Sharing& answer) {
  return ProofOf(secret, "tuplespace welcome", nonce, answer);
}

std::string BrokerSeesProof(std::string_view secret, std::uint64_t nonce) {
  return ProofOf(secret, "tuplespace broker sees", nonce);
}

std::string ClientSeesProof(std::string_view secret, std::uint64_t session) {
  return ProofOf(secret, "tuplespace client sees", session);
}

}  // namespace tuplespace
