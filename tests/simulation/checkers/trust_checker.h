// TrustChecker: benches end when they should, and the clients of a key that offended get one task
// at a time until they have completed one. It knows how far a client may extend its leases.
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
  // The context must outlive it.
  explicit TrustChecker(const CheckContext& context) : context_(context) {}

  void OnGet(const tuplespace::ClientId& client, tuplespace::RequestId id,
             const tuplespace::Get& get);
  void OnReply(const tuplespace::ClientId& client, tuplespace::RequestId id);
  // Before the leases know of them.
  void OnGrants(const tuplespace::ClientId& client, tuplespace::RequestId id,
                const tuplespace::Grants& grants, std::int64_t now_us);
  void OnCompletedTask(const tuplespace::ClientId& client) { tried_.insert(client); }
  void OnMistrusted(const tuplespace::Notice& notice, std::int64_t now_us);
  // A lease of the client ended without its doing: it may have been benched for that, which nobody
  // is told if the manager that put the task is not there.
  void OnLeaseLost(const tuplespace::ClientId& client) { mistrusted_.insert(client); }
  // It says that it failed a task; after so many it may have been benched in the same way.
  void OnFail(const tuplespace::ClientId& client) {
    if (++fails_[client] >= kLimits.tasks_in_vain) mistrusted_.insert(client);
  }
  void OnLost(const tuplespace::ClientId& client);
  // Of a lease of the task `key` that `client` holds; null: it is no task, or is not known.
  Extensions ExtensionsOf(const tuplespace::ClientId& client, const tuplespace::Key& key,
                          const tuplespace::TaskSpec* task, std::int64_t now_us) const;
  // The broker has done all that was due by now.
  void OnTime(std::int64_t now_us) const;

 private:
  bool IsUntried(const tuplespace::ClientId& client) const {
    return context_.IsLimited(client) && !tried_.contains(client);
  }

  bool IsOnProbation(const tuplespace::ClientId& client, std::int64_t now_us) const;

  struct OpenGet {
    tuplespace::Pattern pattern;
    std::uint64_t offer_bytes = 0;
    // Until when it is to be answered: when the bench of its client ends.
    std::int64_t due_us = std::numeric_limits<std::int64_t>::max();
  };

  const CheckContext& context_;
  std::map<std::pair<tuplespace::ClientId, tuplespace::RequestId>, OpenGet> open_gets_;
  // What each client that is there got, or could have got if it had been ready, and the most bytes
  // that a Get of it offered that was answered.
  struct Asked {
    std::vector<tuplespace::Pattern> patterns;
    std::uint64_t offer_bytes = 0;
  };
  std::map<tuplespace::ClientId, Asked> asked_for_;
  std::set<tuplespace::ClientId> tried_;  // that have completed a task
  std::map<tuplespace::ClientId, std::uint32_t> fails_;
  std::set<tuplespace::ClientId> mistrusted_;  // that were benched, ever, or may have been
  std::int64_t offence_us_ = std::numeric_limits<std::int64_t>::min() / 2;  // of the key, the last
};

}  // namespace acan::simulation
