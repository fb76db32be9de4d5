// AccessList: what a broker's keys and roles mean for one key and one request. Pure.
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
  AccessList(AccessList&&) = default;  // entries point to roles: moved along, not copied
  AccessList& operator=(AccessList&&) = default;

  struct Entry {
    AllowedPeer peer;
    const Role* role = nullptr;  // of this list; with the peer's limit in its rules, if it has one
    bool ended = false;          // see EndKeys
  };
  // Null: not on the list, or the time of the key is over.
  const Entry* Find(const std::string& public_key) const;
  // Why there is no such entry: "its public key ... is not on the list".
  std::string WhyNot(const std::string& public_key) const;
  // The keys whose time is over at `now_unix_s` count no more, whatever the clock says later. True
  // if there were such.
  bool EndKeys(std::int64_t now_unix_s);
  bool IsEnded(const std::string& public_key) const;  // on the list, but its time is over
  std::int64_t NextEndUnixS() const { return next_end_unix_s_; }  // kNoEnd: none

 private:
  std::vector<Role> roles_;
  std::deque<Role> limited_roles_;                  // of one entry each; they stay where they are
  std::unordered_map<std::string, Entry> entries_;  // by public key
  std::int64_t next_end_unix_s_ = kNoEnd;
};

// The ids that clients with this name may have begin so.
std::string ClientIdPrefix(const std::string& peer_name);

// nullopt if `role` may do this as `client`, else what it may not. Where the role has a limit, the
// patterns in `body` that leave the limited field open are narrowed to it.
std::optional<std::string> RefusalOf(const Role& role, const ClientId& client, RequestBody& body);

}  // namespace tuplespace
