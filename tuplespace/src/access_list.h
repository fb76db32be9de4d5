// AccessList: what a broker's keys and roles mean for one key and one request. Pure.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tuplespace/access.h"
#include "tuplespace/messages.h"

namespace tuplespace {

class AccessList {
 public:
  // Throws std::invalid_argument if the keys, names or roles make no sense.
  AccessList(std::vector<Role> roles, const std::vector<AllowedPeer>& peers);
  AccessList(AccessList&&) = default;  // entries point to roles: moved along, not copied
  AccessList& operator=(AccessList&&) = default;

  struct Entry {
    AllowedPeer peer;
    const Role* role = nullptr;  // of this list
  };
  const Entry* Find(const std::string& public_key) const;  // null: not on the list

 private:
  std::vector<Role> roles_;
  std::unordered_map<std::string, Entry> entries_;  // by public key
};

// The ids that clients with this name may have begin so.
std::string ClientIdPrefix(const std::string& peer_name);

// nullopt if `role` may do this as `client`, else what it may not.
std::optional<std::string> RefusalOf(const Role& role, const ClientId& client,
                                     const RequestBody& body);

}  // namespace tuplespace
