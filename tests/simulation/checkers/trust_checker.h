// TrustChecker: checks that benches end in time, that clients of a key that offended get one task
// at a time until they have completed one, and that what a client does with tasks that are judged
// apart has no effect on others. It also knows how far a client may extend its leases.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "checkers/check_context.h"

namespace acan::simulation {

class TrustChecker {
 public:
  // `context` must outlive this object.
  explicit TrustChecker(const CheckContext& context) : context_(context) {}

  void OnGet(const tuplespace::ClientId& client, tuplespace::RequestId id,
             const tuplespace::Get& get);
  void OnReply(const tuplespace::ClientId& client, tuplespace::RequestId id);
  // Call this before the LeaseChecker learns of the grants.
  void OnGrants(const tuplespace::ClientId& client, tuplespace::RequestId id,
                const tuplespace::Grants& grants, std::int64_t now_us);
  void OnCompletedTask(const tuplespace::ClientId& client) { tried_.insert(client); }
  void OnMistrusted(const tuplespace::Notice& notice, std::int64_t now_us);
  // A lease of the client ended without its action, so it may have been benched. Nobody is told of
  // that if the manager that put the task is gone.
  void OnLeaseLost(const tuplespace::ClientId& client) { mistrusted_.insert(client); }
  // The client gives a task back. If it had kept the task for long, it may have been benched as
  // above.
  void OnReturned(const tuplespace::ClientId& client) { mistrusted_.insert(client); }
  // The client reports a failed task. After many failures it may have been benched as above.
  void OnFail(const tuplespace::ClientId& client) {
    if (++fails_[client] >= kLimits.tasks_in_vain) mistrusted_.insert(client);
  }
  void OnLost(const tuplespace::ClientId& client);
  // For a lease of the task `key` that `client` holds. `task` is null if it is no task or unknown.
  Extensions ExtensionsOf(const tuplespace::ClientId& client, const tuplespace::Key& key,
                          const tuplespace::TaskSpec* task, std::int64_t now_us) const;
  // The broker has done everything that was due.
  void OnTime(std::int64_t now_us) const;

 private:
  // A client with a key may have the benches of other clients of that key.
  bool HasKey(const tuplespace::ClientId& client) const {
    return context_.IsLimited(client) || context_.IsHostile(client);
  }
  bool IsUntried(const tuplespace::ClientId& client) const {
    return context_.IsLimited(client) && !tried_.contains(client);
  }

  bool IsOnProbation(const tuplespace::ClientId& client, std::int64_t now_us) const;

  struct OpenGet {
    tuplespace::Pattern pattern;
    std::uint64_t offer_bytes = 0;
    // When it must be answered at the latest: when the bench of its client ends.
    std::int64_t due_us = std::numeric_limits<std::int64_t>::max();
  };

  const CheckContext& context_;
  std::map<std::pair<tuplespace::ClientId, tuplespace::RequestId>, OpenGet> open_gets_;
  // The patterns of a connected client's answered Gets, whose tasks it got or would have taken, and
  // the largest offer of these Gets.
  struct Asked {
    std::vector<tuplespace::Pattern> patterns;
    std::uint64_t offer_bytes = 0;
  };
  std::map<tuplespace::ClientId, Asked> asked_for_;
  std::set<tuplespace::ClientId> tried_;  // clients that have completed a task
  std::map<tuplespace::ClientId, std::uint32_t> fails_;
  std::set<tuplespace::ClientId> mistrusted_;  // clients that were or may have been benched, ever
  std::int64_t offence_us_ = std::numeric_limits<std::int64_t>::min() / 2;  // last one of the key
};

}  // namespace acan::simulation
