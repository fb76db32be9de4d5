#include "client_options.h"

#include <fmt/format.h>

#include <stdexcept>

#include "access_list.h"
#include "tuplespace/clock.h"
#include "wire.h"

namespace tuplespace {

namespace {

constexpr std::size_t kRandomIdBytes = 15;  // 75 random bits, short enough to need no allocation

ClientId RandomId() {
  static constexpr char kDigits[] = "0123456789abcdefghjkmnpqrstvwxyz";
  ClientId id;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kRandomIdBytes; ++i, bits >>= 5) {
    if (i % 12 == 0) bits = RandomNumber();
    id.push_back(kDigits[bits & 31]);
  }
  return id;
}

std::string PrefixOf(const ClientOptions& options) {
  return options.access ? ClientIdPrefix(options.access->name) : "";
}

void CheckAccess(const ClientAccess& access) {
  if (const auto problem = PeerNameProblem(access.name)) {
    throw std::invalid_argument(fmt::format("the name \"{}\" of a key {}", access.name, *problem));
  }
  if (const auto problem = KeyPairProblem(access.keys)) {
    throw std::invalid_argument(fmt::format("the keys of \"{}\": {}", access.name, *problem));
  }
  if (const auto problem = KeyProblem(access.broker_public_key)) {
    throw std::invalid_argument("the broker's public key " + *problem);
  }
}

}  // namespace

ClientId GeneratedId(const ClientOptions& options) {
  return PrefixOf(options) + RandomId();
}

ClientOptions CheckedOptions(ClientOptions options) {
  if (options.access) CheckAccess(*options.access);
  const std::string prefix = PrefixOf(options);
  if (options.id.empty()) options.id = GeneratedId(options);
  if (!options.id.starts_with(prefix)) {
    throw std::invalid_argument(fmt::format(
        "the client id \"{}\" was given; with this key it begins with \"{}\"", options.id, prefix));
  }
  if (options.id.size() > kMaxClientIdBytes || options.id.front() == '\0') {
    throw std::invalid_argument(
        fmt::format("a client id of {} bytes was given; 1 to {} bytes are needed, the first not 0",
                    options.id.size(), kMaxClientIdBytes));
  }
  return options;
}

}  // namespace tuplespace
