// AccessList: what a broker's keys and roles allow for a key and a request. Pure.
#pragma once

#include <cstdint>
#include <deque>
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
  // Entries point to roles, which move along but cannot be copied.
  AccessList(AccessList&&) = default;
  AccessList& operator=(AccessList&&) = default;

  struct Entry {
    AllowedPeer peer;
    const Role* role = nullptr;  // in this list; its rules include the peer's limit, if any
    bool ended = false;          // see EndKeys
  };
  // Null: the key is not on the list or has ended.
  const Entry* Find(const std::string& public_key) const;
  // Why Find returns null: "its public key ... is not on the list".
  std::string WhyNot(const std::string& public_key) const;
  // From now on, keys that have ended at `now_unix_s` are not valid, and all others are. So a clock
  // that was ahead for a moment ends no key for good. True if a key was valid before this.
  bool EndKeys(std::int64_t now_unix_s);
  bool IsEnded(const std::string& public_key) const;  // on the list, but ended
  bool HasEnds() const { return has_ends_; }          // whether any key ends at all

 private:
  std::vector<Role> roles_;
  std::deque<Role> limited_roles_;  // one for each limited entry; their addresses are stable
  std::unordered_map<std::string, Entry> entries_;  // by public key
  bool has_ends_ = false;
};

// The prefix of the ids that clients of this peer may use.
std::string ClientIdPrefix(const std::string& peer_name);

// nullopt if `role` may do this as `client`; otherwise what it may not do. If the role has a limit,
// narrows the patterns in `body` that leave the limited field open.
std::optional<std::string> RefusalOf(const Role& role, const ClientId& client, RequestBody& body);

}  // namespace tuplespace
