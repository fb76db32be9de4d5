// AccessControl: who may be a broker's client at present. Without keys everybody may.
//
// SetPeers is thread safe; everything else belongs to the broker's thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "access_list.h"
#include "tuplespace/access.h"

namespace tuplespace {

class AccessControl {
 public:
  // Throws std::invalid_argument for access that makes no sense.
  explicit AccessControl(const std::optional<BrokerAccess>& access);

  bool has_keys() const { return list_.has_value(); }
  const AccessList& list() const { return *list_; }  // REQUIRES: has_keys()

  // What `client` may do, which the authenticator calls `user`; null: it may not be here, as `why`
  // says. REQUIRES: has_keys().
  const AccessList::Entry* Find(const std::string& user, const ClientId& client,
                                std::string* why) const;

  // Replaces the list from the next TakeNewPeers on. Throws std::invalid_argument.
  void SetPeers(const std::vector<AllowedPeer>& peers);
  bool TakeNewPeers();  // whether the list is another one now
  // Whether the time of a key has ended since. The wall clock may be set at any time, so it is
  // looked at again and again, at NextLookUs() next (kForeverUs: no key ends).
  bool EndKeys(std::int64_t now_us);
  std::int64_t NextLookUs() const;

 private:
  const std::optional<BrokerAccess> access_;
  std::optional<AccessList> list_;
  std::int64_t look_at_us_ = 0;
  std::mutex mutex_;  // guards what follows
  std::optional<AccessList> new_list_;
};

}  // namespace tuplespace
