// SilentKeys: the keys whose clients are asked for no votes, because they left votes alone for
// long. A key is asked again when its clients have put some results, four times as many each time.
// So a key that works seldom delays few votes. A client without a key counts as a key of its own.
// Pure. Owned by Audits, for its thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "acan/core/names.h"
#include "tuplespace/messages.h"

namespace acan {

class SilentKeys {
 public:
  // The handlers present, by client id; forgets clients without a key that are gone.
  void SetPresent(const std::map<std::string, Capacity>& handlers);
  void OnResultOf(const tuplespace::ClientId& client);
  // The client's key left a vote alone.
  void Add(const tuplespace::ClientId& client);

  // Whether a client of the key of `client` has put a result.
  bool Works(const tuplespace::ClientId& client) const;
  // Whether it is not asked for votes.
  bool Has(const tuplespace::ClientId& client) const;

 private:
  struct Debt {
    std::uint64_t results = 0;  // until it is asked again; 0: it is asked
    std::uint64_t next = 1;     // owed next time
  };

  // By OwnerOf.
  std::set<tuplespace::ClientId> work_;
  std::map<tuplespace::ClientId, Debt> debts_;
};

}  // namespace acan
