// TrustChecker: benches end when they should, and the clients of a key that offended get one task
// at a time until they have completed one.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "checkers/check_context.h"
#include "checkers/lease_checker.h"

namespace acan::simulation {

class TrustChecker {
 public:
  // Both must outlive it.
  TrustChecker(const CheckContext& context, const LeaseChecker& leases)
      : context_(context), leases_(leases) {}

  void OnGet(const tuplespace::ClientId& client, tuplespace::RequestId id);
  void OnReply(const tuplespace::ClientId& client, tuplespace::RequestId id);
  // Before the leases know of them.
  void OnGrants(const tuplespace::ClientId& client, const tuplespace::Grants& grants,
                std::int64_t now_us) const;
  void OnCompletedTask(const tuplespace::ClientId& client) { tried_.insert(client); }
  void OnMistrusted(const tuplespace::Notice& notice, std::int64_t now_us);
  void OnLost(const tuplespace::ClientId& client);
  // The broker has done all that was due by now.
  void OnTime(std::int64_t now_us) const;

 private:
  bool IsUntried(const tuplespace::ClientId& client) const {
    return context_.IsLimited(client) && !tried_.contains(client);
  }

  const CheckContext& context_;
  const LeaseChecker& leases_;
  // Gets that wait, and until when they are to be answered: when the bench of their client ends.
  std::map<std::pair<tuplespace::ClientId, tuplespace::RequestId>, std::int64_t> open_gets_;
  std::set<tuplespace::ClientId> tried_;  // that have completed a task
  std::int64_t offence_us_ = std::numeric_limits<std::int64_t>::min() / 2;  // of the key, the last
};

}  // namespace acan::simulation
