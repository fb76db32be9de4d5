// Observer: follows every request that a broker accepts and every answer that it gives, with a
// model of its own of leases and of what must be there, and says what contradicts what was
// promised. It is told of messages in the order in which the broker handled them; it never looks
// inside.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "envelope.h"
#include "random.h"
#include "tuplespace/client_limits.h"

namespace acan::simulation {

// What all brokers of a simulation together must keep to: in exact precision a result is a pure
// function of its key and of the run that the key begins with, whoever computes it and when.
struct Results {
  std::unordered_map<tuplespace::Key, std::uint64_t> hashes;
  bool may_differ = false;  // somebody computes wrong
};

std::uint64_t HashOf(const tuplespace::Payload& payload);

class Observer {
 public:
  Observer(Results& results, std::function<void(const std::string&)> report)
      : results_(results), report_(std::move(report)) {}

  // These clients have a key, and with it these limits; the others have none.
  void SetLimits(std::function<bool(const tuplespace::ClientId&)> have_key,
                 const tuplespace::ClientLimits& limits) {
    have_key_ = std::move(have_key);
    limits_ = limits;
  }

  // Before the broker acts on it.
  void OnRequest(const tuplespace::ClientId& client, std::uint64_t session,
                 const tuplespace::Request& request);
  // One turn of the broker: `active` is whose requests it handled, "" if it was only time. Its
  // answers come in the order in which it was served; others were woken by that.
  void OnAnswers(
      const tuplespace::ClientId& active,
      const std::vector<std::pair<tuplespace::ClientId, const tuplespace::ToClient*>>& answers,
      std::int64_t now_us);
  void OnLost(const tuplespace::ClientId& client);

  // The broker has done all that was due by now.
  void OnTime(std::int64_t now_us);

  // Whether the answers since the last call tell this client that it leads a job, or does not; if
  // they say nothing about that, nullopt.
  std::optional<bool> TakeLead(const tuplespace::ClientId& client);

  // A tuple that must be there, with its bytes; nullptr: none was found.
  const tuplespace::Key* AnyTuple(Random& random) const;
  void CheckTuple(const tuplespace::Key& key, const tuplespace::FoundTuple* found) const;
  std::size_t tuples() const { return there_.size(); }
  std::vector<tuplespace::Key> Tuples() const;
  // Who has this key under a lease.
  std::optional<tuplespace::ClientId> Holder(const tuplespace::Key& key) const;
  // Of a stored task: its lease, whom it excludes and what it declares, nothing else; nullptr:
  // there is none.
  const tuplespace::TaskSpec* Task(const tuplespace::Key& key) const;

 private:
  // It surely lasts until `sure_us`, and ends at `end_us` at the latest. Where somebody else could
  // take the task the space cuts an extension, and who could do that is not known here.
  struct Lease {
    tuplespace::ClientId client;
    std::uint64_t fence = 0;
    std::int64_t granted_us = 0;
    std::int64_t lease_us = 0;  // as it was granted
    std::int64_t sure_us = 0;
    std::int64_t end_us = 0;
    bool in_doubt = false;  // of a past one: it may have ended as a failure
  };
  enum class May : std::uint8_t { kNo, kPerhaps, kYes };
  struct Asked {
    std::variant<std::monostate, tuplespace::Put, tuplespace::Complete, tuplespace::Supply,
                 tuplespace::LeaseRef, tuplespace::Retire>
        what;  // payloads are dropped, see `hashes`
    std::vector<std::uint64_t> hashes;
    std::int64_t extend_us = -1;
  };
  void OnDone(const tuplespace::ClientId& client, tuplespace::RequestId id, std::int64_t now_us);
  void OnReply(const tuplespace::ClientId& client, const tuplespace::Reply& reply,
               std::int64_t now_us);
  void OnGrants(const tuplespace::ClientId& client, const tuplespace::Grants& grants,
                std::int64_t now_us);
  void OnNotice(const tuplespace::ClientId& client, const tuplespace::Notice& notice,
                std::int64_t now_us);
  void CheckGrants(const tuplespace::ClientId& client, const tuplespace::Grants& grants,
                   std::int64_t now_us) const;
  void CheckLease(const tuplespace::Key& key, const Lease& lease) const;
  void OnBenched(const tuplespace::Notice& notice, std::int64_t now_us);
  void OnPut(const tuplespace::ClientId& client, const std::vector<tuplespace::Tuple>& tuples,
             const std::vector<std::uint64_t>& hashes,
             const std::vector<tuplespace::PutStatus>& status, bool results);
  void OnSupply(const tuplespace::ClientId& client, const std::vector<tuplespace::Tuple>& tuples,
                const std::vector<std::uint64_t>& hashes,
                const std::vector<tuplespace::PutStatus>& status);
  void CheckResult(const tuplespace::Key& key, std::uint64_t hash);
  void OnLeaseAnswer(const tuplespace::ClientId& client, const Asked& asked,
                     const tuplespace::LeaseRef& ref, tuplespace::LeaseStatus status,
                     std::int64_t now_us);
  // nullptr: it does not hold it.
  Lease* Held(const tuplespace::ClientId& client, const tuplespace::LeaseRef& ref);
  // The space says that this completion was not what the task declared, and that it has failed.
  void OnFalseCompletion(const tuplespace::ClientId& client, const tuplespace::LeaseRef& ref,
                         std::int64_t now_us);
  void OnCompleted(const tuplespace::ClientId& client, const tuplespace::Complete& complete,
                   const tuplespace::CompleteReply& reply);
  // It brings what its task declares. REQUIRES: there is such a task.
  bool IsDeclared(const tuplespace::Complete& complete) const;
  // Results come under `lease`: those that were stored must be such as may be.
  void CheckStored(const tuplespace::ClientId& client, const tuplespace::Complete& complete,
                   const tuplespace::CompleteReply& reply, May may) const;
  bool IsLimited(const tuplespace::ClientId& client) const {
    return have_key_ && have_key_(client);
  }
  // Whose answers show that a Tick served it, as its requests had waited; else "".
  tuplespace::ClientId ServedLate(
      const std::vector<std::pair<tuplespace::ClientId, const tuplespace::ToClient*>>& answers)
      const;
  void OnRetired(const tuplespace::Retire& retire);
  void TellLead(const tuplespace::ClientId& client, const tuplespace::Key& key, bool leads);
  static bool Match(const std::vector<tuplespace::Pattern>& patterns, const tuplespace::Key& key);
  // The lease ends without its holder's doing: it may still complete the task.
  void Lose(const tuplespace::Key& key, const Lease& lease);
  May MayComplete(const tuplespace::ClientId& client, const tuplespace::LeaseRef& ref) const;
  void Gone(const tuplespace::Key& key) { there_.erase(key); }

  Results& results_;
  std::function<void(const std::string&)> report_;
  std::map<std::pair<tuplespace::ClientId, tuplespace::RequestId>, Asked> asked_;
  std::set<std::pair<tuplespace::ClientId, tuplespace::RequestId>> late_;  // of earlier sessions
  // Gets that wait, and until when they are to be answered: when the bench of their client ends.
  std::map<std::pair<tuplespace::ClientId, tuplespace::RequestId>, std::int64_t> open_gets_;
  // Asked in this session.
  std::map<tuplespace::ClientId, std::set<tuplespace::RequestId>> current_;
  std::map<tuplespace::ClientId, std::uint64_t> sessions_;
  std::map<tuplespace::ClientId, std::uint64_t> nonces_;  // of the latest Hello that was welcomed
  std::map<tuplespace::ClientId, std::optional<bool>> leads_;  // of who ever led: not told yet
  std::map<tuplespace::Key, Lease> leases_;
  std::map<tuplespace::Key, std::vector<Lease>> past_leases_;  // of tasks
  std::set<std::uint64_t> fences_;
  struct There {
    std::uint64_t hash = 0;
    tuplespace::ClientId resident_with;  // empty: the space has its bytes
  };
  std::map<tuplespace::Key, There> there_;                 // acknowledged, and not taken away since
  std::set<tuplespace::Key> completed_;                    // tasks
  std::set<tuplespace::Key> completed_now_;                // in the present turn
  std::map<tuplespace::Key, tuplespace::TaskSpec> tasks_;  // see Task
  std::vector<tuplespace::Pattern> watermarks_;
  std::vector<tuplespace::Pattern> retired_now_;  // in the present turn
  std::function<bool(const tuplespace::ClientId&)> have_key_;
  std::int64_t offence_us_ = std::numeric_limits<std::int64_t>::min() / 2;  // of that key, the last
  std::set<tuplespace::ClientId> tried_;  // that have completed a task
  tuplespace::ClientLimits limits_;
  std::map<tuplespace::ClientId, std::set<tuplespace::Key>> own_;  // what limited clients put
};

}  // namespace acan::simulation
