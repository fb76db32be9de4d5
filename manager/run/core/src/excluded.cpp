#include "acan/manager/excluded.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace acan {

using tuplespace::ClientId;
using tuplespace::KeyPrefixOf;

namespace {

// More than one device of the owner of a key may be faulty.
constexpr int kMaxWrongOfKey = 4;

}  // namespace

ClientId OwnerOf(const ClientId& client) {
  const std::string_view key = KeyPrefixOf(client);
  return key.empty() ? client : ClientId(key);
}

bool HasClient(const std::set<ClientId>& clients, const ClientId& client) {
  return clients.contains(client) || clients.contains(OwnerOf(client));
}

std::set<ClientId> WithoutCovered(const std::set<ClientId>& clients) {
  std::set<ClientId> rest = clients;
  std::erase_if(rest, [&](const ClientId& client) {
    const ClientId owner = OwnerOf(client);
    return owner != client && clients.contains(owner);
  });
  return rest;
}

std::vector<ClientId> KeysToExclude(const std::set<ClientId>& wrong,
                                    const std::set<ClientId>& present) {
  std::map<ClientId, int> wrong_of;
  for (const ClientId& client : wrong) {
    if (!KeyPrefixOf(client).empty()) ++wrong_of[OwnerOf(client)];
  }
  std::vector<ClientId> keys;
  for (const auto& [key, count] : wrong_of) {
    const ClientId& owner = key;
    const bool others = std::any_of(present.begin(), present.end(), [&](const ClientId& client) {
      return OwnerOf(client) != owner && !HasClient(wrong, client);
    });
    if (count >= kMaxWrongOfKey && others && !wrong.contains(key)) keys.push_back(key);
  }
  return keys;
}

}  // namespace acan
