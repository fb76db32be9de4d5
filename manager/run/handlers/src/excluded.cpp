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

// Whether a handler is present that is not wrong and does not have this key.
bool IsAnotherPresent(const ClientId& owner, const std::set<ClientId>& wrong,
                      const std::set<ClientId>& present) {
  return std::any_of(present.begin(), present.end(), [&](const ClientId& client) {
    return OwnerOf(client) != owner && !HasClient(wrong, client);
  });
}

// The number of the clients of each key.
std::map<ClientId, int> CountByKey(const std::set<ClientId>& clients) {
  std::map<ClientId, int> count;
  for (const ClientId& client : clients) {
    if (!KeyPrefixOf(client).empty()) ++count[OwnerOf(client)];
  }
  return count;
}

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
  std::vector<ClientId> keys;
  for (const auto& [key, count] : CountByKey(wrong)) {
    const bool is_over = count >= kMaxWrongOfKey && !wrong.contains(key);
    if (is_over && IsAnotherPresent(key, wrong, present)) keys.push_back(key);
  }
  return keys;
}

std::vector<ClientId> KeysOverLimit(const std::set<ClientId>& wrong, std::size_t most) {
  std::vector<ClientId> keys;
  std::set<ClientId> named = WithoutCovered(wrong);
  while (named.size() > most) {
    const std::map<ClientId, int> count = CountByKey(named);
    const auto key = std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) {
      return a.second < b.second;
    });
    if (key == count.end() || key->second < 2) break;  // a key in place of one client saves nothing
    keys.push_back(key->first);
    named.insert(key->first);
    named = WithoutCovered(named);
  }
  return keys;
}

std::set<ClientId> KeysInDoubt(const std::vector<ClientId>& found, const std::set<ClientId>& wrong,
                               const std::set<ClientId>& present) {
  std::set<ClientId> keys;
  for (const ClientId& client : found) {
    const ClientId owner = OwnerOf(client);
    if (owner != client && IsAnotherPresent(owner, wrong, present)) keys.insert(owner);
  }
  return keys;
}

}  // namespace acan
