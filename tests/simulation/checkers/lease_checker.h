// LeaseChecker: which client holds which tuple, under which fence and for how long, and which
// results count.
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
  // Both must outlive this object.
  LeaseChecker(const CheckContext& context, TupleChecker& tuples)
      : context_(context), tuples_(tuples) {}

  // ---- answers of the broker --------------------------------------------------------------------
  // Returns false if the grant changes nothing because the tuple was removed in the same turn.
  bool OnGrant(const tuplespace::ClientId& client, const tuplespace::Grant& grant,
               std::int64_t now_us);
  // The answer to a Complete, a Release, a Fail, or an Extend (with `extend_us` >= 0).
  // `extensions`: for an Extend, how far this client may extend a lease.
  void OnAnswer(const tuplespace::ClientId& client, const tuplespace::LeaseRef& ref,
                tuplespace::LeaseStatus status, std::int64_t extend_us,
                const Extensions& extensions, std::int64_t now_us);
  // The space says that a completion differed from what the task declares, so the task has failed.
  void OnFalseCompletion(const tuplespace::ClientId& client, const tuplespace::LeaseRef& ref,
                         std::int64_t now_us);
  // Returns true if the completion counted.
  bool OnCompleted(const tuplespace::ClientId& client, const tuplespace::Complete& complete,
                   const tuplespace::CompleteReply& reply);
  void OnRetired(const tuplespace::Retire& retire);
  void OnLost(const tuplespace::ClientId& client);
  // A client that completes a task and joins again in the same message is not told whether the
  // completion counted. If it did, the task is gone, its present holder has lost it, and its
  // results are there.
  void Doubt(const tuplespace::ClientId& client, const tuplespace::Complete& complete,
             const std::vector<std::uint64_t>& hashes, std::int64_t now_us);
  // A client that asks for tasks and joins again in the same message is not told what it got, but
  // may guess the fence.
  void DoubtGrants(const tuplespace::ClientId& client) { guesses_.insert(client); }

  // ---- queries ----------------------------------------------------------------------------------
  // The client that holds this key under a lease.
  std::optional<tuplespace::ClientId> Holder(const tuplespace::Key& key) const;

 private:
  // A lease certainly lasts until `sure_us`, and ends at `end_us` at the latest. They differ
  // because the space cuts an extension if another client could take the task, which the checker
  // cannot always know.
  struct Lease {
    tuplespace::ClientId client;
    std::uint64_t fence = 0;
    std::int64_t granted_us = 0;
    std::int64_t lease_us = 0;  // as granted
    // Extensions may count from here: until then the holder may have waited for another client's
    // payload.
    std::int64_t counted_from_us = 0;
    std::int64_t sure_us = 0;
    std::int64_t end_us = 0;
    bool has_places = false;   // its holder may fetch inputs from others
    std::int64_t last_us = 0;  // however often it is extended, if the tuple is only borrowed
    bool in_doubt = false;     // for a past lease: it may have ended as a failure
  };
  enum class May : std::uint8_t { kNo, kPerhaps, kYes };

  // nullptr: the client does not hold it.
  Lease* Held(const tuplespace::ClientId& client, const tuplespace::LeaseRef& ref);
  bool MayWaitForAnother(const Lease& lease, const tuplespace::TaskSpec& task,
                         std::int64_t now_us) const;
  void CheckLength(const tuplespace::Key& key, const Lease& lease) const;
  // How long a lease of this task may be.
  std::int64_t MostUs(const tuplespace::Key& key, const tuplespace::TaskSpec& task) const;
  int Doublings(const tuplespace::Key& key) const;
  // The lease ends without an action of its holder, which may still complete the task.
  void Lose(const tuplespace::Key& key, const Lease& lease);
  May MayComplete(const tuplespace::ClientId& client, const tuplespace::LeaseRef& ref) const;
  // Whether the results are exactly those that the task declares. REQUIRES: the task is known.
  bool IsDeclared(const tuplespace::Complete& complete) const;
  // Checks that the results that the space stored were allowed under this lease.
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
