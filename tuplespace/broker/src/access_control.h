// AccessControl: who may be a broker's client at present. Without keys everyone may.
//
// SetPeers is thread safe; all other methods are for the broker's thread.
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
  // Throws std::invalid_argument if `access` is inconsistent.
  explicit AccessControl(const std::optional<BrokerAccess>& access);

  bool has_keys() const { return list_.has_value(); }
  const AccessList& list() const { return *list_; }  // REQUIRES: has_keys()

  // What `client` may do, for which the authenticator's name is `user`. Null: it is not allowed;
  // `why` says why. REQUIRES: has_keys().
  const AccessList::Entry* Find(const std::string& user, const ClientId& client,
                                std::string* why) const;

  // The next TakeNewPeers replaces the list with this one. Throws std::invalid_argument.
  void SetPeers(const std::vector<AllowedPeer>& peers);
  bool TakeNewPeers();  // whether the list has changed
  // Whether a key has ended since the last call. Call it again at NextLookUs() (kForeverUs: no key
  // ends), because the wall clock may be set at any time.
  bool EndKeys(std::int64_t now_us);
  std::int64_t NextLookUs() const;

 private:
  const std::optional<BrokerAccess> access_;
  std::optional<AccessList> list_;
  std::int64_t look_at_us_ = 0;
  std::mutex mutex_;  // guards the members below
  std::optional<AccessList> new_list_;
};

}  // namespace tuplespace
