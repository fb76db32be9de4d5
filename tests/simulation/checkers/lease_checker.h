// LeaseChecker: who holds what under which fence, for how long, and whose results count.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "checkers/check_context.h"
#include "checkers/tuple_checker.h"

namespace acan::simulation {

class LeaseChecker {
 public:
  // Both must outlive it.
  LeaseChecker(const CheckContext& context, TupleChecker& tuples)
      : context_(context), tuples_(tuples) {}

  // ---- what the broker answered ----------------------------------------------------------------
  // False: it changes nothing any more, as the tuple went in the same turn.
  bool OnGrant(const tuplespace::ClientId& client, const tuplespace::Grant& grant,
               std::int64_t now_us);
  // To a Complete, an Extend (with `extend_us` >= 0), a Release or a Fail. `extensions`: of an
  // Extend, how far this client may extend a lease.
  void OnAnswer(const tuplespace::ClientId& client, const tuplespace::LeaseRef& ref,
                tuplespace::LeaseStatus status, std::int64_t extend_us,
                const Extensions& extensions, std::int64_t now_us);
  // The space says that this completion was not what the task declared, and that it has failed.
  void OnFalseCompletion(const tuplespace::ClientId& client, const tuplespace::LeaseRef& ref,
                         std::int64_t now_us);
  // True: it counted.
  bool OnCompleted(const tuplespace::ClientId& client, const tuplespace::Complete& complete,
                   const tuplespace::CompleteReply& reply);
  void OnRetired(const tuplespace::Retire& retire);
  void OnLost(const tuplespace::ClientId& client);
  // Who completes a task and joins again in one message is not told whether that counted. If it
  // did, the task is gone, whoever has it now does not hold it any more, and its results are there.
  void Doubt(const tuplespace::ClientId& client, const tuplespace::Complete& complete,
             const std::vector<std::uint64_t>& hashes, std::int64_t now_us);
  // Who asks for tasks and joins again in one message is not told what it got, but may guess the
  // fence.
  void DoubtGrants(const tuplespace::ClientId& client) { guesses_.insert(client); }

  // ---- what is known ---------------------------------------------------------------------------
  // Who has this key under a lease.
  std::optional<tuplespace::ClientId> Holder(const tuplespace::Key& key) const;

 private:
  // It surely lasts until `sure_us`, and ends at `end_us` at the latest. Where somebody else could
  // take the task the space cuts an extension, and who could do that is not always known here.
  struct Lease {
    tuplespace::ClientId client;
    std::uint64_t fence = 0;
    std::int64_t granted_us = 0;
    std::int64_t lease_us = 0;  // as it was granted
    // Extensions may be counted from here: it may have waited for another's payload until then.
    std::int64_t counted_from_us = 0;
    std::int64_t sure_us = 0;
    std::int64_t end_us = 0;
    bool in_doubt = false;  // of a past one: it may have ended as a failure
  };
  enum class May : std::uint8_t { kNo, kPerhaps, kYes };

  // nullptr: it does not hold it.
  Lease* Held(const tuplespace::ClientId& client, const tuplespace::LeaseRef& ref);
  bool MayWaitForAnother(const Lease& lease, const tuplespace::TaskSpec& task) const;
  void CheckLength(const tuplespace::Key& key, const Lease& lease) const;
  int Doublings(const tuplespace::Key& key) const;
  // The lease ends without its holder's doing: it may still complete the task.
  void Lose(const tuplespace::Key& key, const Lease& lease);
  May MayComplete(const tuplespace::ClientId& client, const tuplespace::LeaseRef& ref) const;
  // It brings what its task declares. REQUIRES: there is such a task.
  bool IsDeclared(const tuplespace::Complete& complete) const;
  // Results come under `lease`: those that were stored must be such as may be.
  void CheckStored(const tuplespace::ClientId& client, const tuplespace::Complete& complete,
                   const tuplespace::CompleteReply& reply, May may) const;

  const CheckContext& context_;
  TupleChecker& tuples_;
  std::map<tuplespace::Key, Lease> leases_;
  std::map<tuplespace::Key, std::vector<Lease>> past_leases_;  // of tasks
  std::set<std::uint64_t> fences_;
  std::set<tuplespace::ClientId> guesses_;
};

}  // namespace acan::simulation
