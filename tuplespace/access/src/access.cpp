#include "tuplespace/access.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <stdexcept>

namespace tuplespace {

namespace {

constexpr std::size_t kDecodedKeyBytes = 32;
constexpr std::size_t kKeyText = 40;  // of Z85, without the final 0
using KeyText = std::array<char, kKeyText + 1>;

}  // namespace

KeyPair MakeKeyPair() {
  KeyText public_key{};
  KeyText secret_key{};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0) {
    throw std::runtime_error(
        fmt::format("cannot make CURVE keys: libzmq says: {}", zmq_strerror(zmq_errno())));
  }
  return {public_key.data(), secret_key.data()};
}

std::optional<std::string> KeyProblem(const std::string& text) {
  if (text.size() != kKeyText) {
    return fmt::format("has {} characters, a key has {}", text.size(), kKeyText);
  }
  // zmq_z85_decode uses characters as indexes of a table for 32 to 127.
  const bool printable =
      std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  std::array<std::uint8_t, kDecodedKeyBytes> bytes{};
  if (!printable || zmq_z85_decode(bytes.data(), text.c_str()) == nullptr) {
    return "is not Z85: a character or a group of five is not in that encoding";
  }
  return std::nullopt;
}

std::optional<std::string> KeyPairProblem(const KeyPair& keys) {
  if (const auto problem = KeyProblem(keys.public_key)) return "the public key " + *problem;
  if (const auto problem = KeyProblem(keys.secret_key)) return "the secret key " + *problem;
  KeyText derived{};
  if (zmq_curve_public(derived.data(), keys.secret_key.c_str()) != 0) {
    return fmt::format("libzmq says: {}", zmq_strerror(zmq_errno()));
  }
  if (keys.public_key != derived.data()) return "the public key is not that of the secret key";
  return std::nullopt;
}

std::optional<std::string> PeerNameProblem(const std::string& name) {
  if (name.empty() || name.size() > kMaxPeerNameBytes) {
    return fmt::format("has {} characters, must have 1 to {}", name.size(), kMaxPeerNameBytes);
  }
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (!plain || name.front() == '.' || name.front() == '-') {
    return "must be letters, digits, '.', '_' and '-', the first no '.' or '-'";
  }
  return std::nullopt;
}

std::string TimeText(std::int64_t unix_s) {
  const auto time = static_cast<std::time_t>(unix_s);
  std::tm parts{};
  if (::gmtime_r(&time, &parts) == nullptr) return fmt::format("second {}", unix_s);
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", parts);
}

}  // namespace tuplespace
