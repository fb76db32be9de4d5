// Audits: decides which tasks a second handler computes again, and what follows if the results
// differ. A pure state machine beside ManagerCore: no clock, no random source, no space.
//
// Each drawn task opens a case. The case's first ballot is the results that count; a vote is the
// same task under its own keys, for a handler that has not voted yet. A result that two different
// handlers computed is right, and handlers that computed another one are wrong. If no new voter is
// present, all voters vote once more, and a handler that contradicts itself is wrong, whichever
// result is right. Two handlers with the same access key count as two only if all ballots come from
// that key. A result without a hash is never right, however many handlers put it. A handler that
// puts a result of another size than the task makes is wrong without any vote. If no other handler
// is present that could vote, the case is skipped; while no handler is present at all, it waits,
// like everything else. A case that only clients of one key have decided counts as skipped, too:
// such votes find faulty devices, but the owner of a key may agree with itself. A key whose clients
// leave votes alone counts as absent for a while (silent_keys.h). A vote names neither the first
// results nor their makers, and nobody can tell from outside which tasks are drawn, because the
// draw depends on a secret. If tasks are put again under the same keys, others of them are drawn.
//
// The number of simultaneous votes is limited, and the earliest cases vote first: a vote may need
// the right result of an earlier case, but not that of a later one. Only the first vote of a case
// waits for other votes to end, so that the cases they belong to get decided.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/names.h"
#include "acan/manager/contributors.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/silent_keys.h"
#include "tuplespace/messages.h"

namespace acan {

// A result as the space reports it.
struct SeenResult {
  tuplespace::Key key;
  tuplespace::ClientId put_by;
  std::optional<tuplespace::PayloadHash> hash;  // unset: the tuple has no bytes
  std::uint64_t bytes = 0;
};

using AuditId = std::uint64_t;
struct AuditVote {
  AuditId audit = 0;
  PlannedTask task;  // its results are reported by OnVote, in the order of its outputs
};
struct AuditVerdict {
  std::vector<tuplespace::ClientId> wrong;  // sorted
  std::string text;                         // for the user; has the first findings
  std::size_t findings = 0;
};
// Handlers computed different results, and nobody will decide which one is right.
struct AuditConflict {
  tuplespace::Key result;
  std::string text;  // for the user; names the handlers
};

class Audits {
 public:
  // While this many votes are under way, no case begins its first vote. The manager has a Read open
  // for each vote, and a broker allows 1,024 per client.
  static constexpr std::size_t kMaxVotes = 256;

  // `share` is the share of all tasks that is audited, 0..1. REQUIRES: handlers do not know
  // `secret`.
  Audits(double share, std::uint64_t secret) : share_(share), secret_(secret) {}

  // ---- events ----------------------------------------------------------------------------------

  // Draws, and returns whether the task is drawn; its case is then open until it is decided. `unit`
  // is the caller's unit.
  bool OnPut(std::int64_t unit, const PlannedTask& task);
  // Results of tasks, whether drawn or not.
  void OnResults(const std::vector<SeenResult>& results);
  void OnVote(AuditId audit, const std::vector<SeenResult>& results);
  // The handlers that may vote: all that are present and not quarantined.
  void OnHandlers(const std::map<std::string, Capacity>& handlers);
  // Those of them that are so slow that they are asked only if nobody else can vote.
  void SetSpares(const std::set<tuplespace::ClientId>& spares) { spares_ = spares; }
  // Forgets all cases, because all tasks are withdrawn. Those with different results are conflicts.
  void Forget();
  // Votes are under way, and the run makes no progress. The keys that could vote and have put no
  // result yet, or all keys if `workers_too`, count as silent, and others are asked for votes.
  void LeaveOutSilent(bool workers_too);

  // ---- outcomes --------------------------------------------------------------------------------

  struct Output {
    std::vector<AuditVote> put;
    std::vector<std::pair<AuditId, tuplespace::Key>> drop;  // votes that nobody can take
    std::optional<AuditVerdict> verdict;
    std::vector<AuditConflict> conflicts;
    // The results differ, and no handler present can decide which one is right.
    std::optional<std::string> undecided;
    std::vector<std::string> say;
  };
  Output TakeOutput();

  std::size_t OpenIn(std::int64_t unit) const;
  bool HasVotes() const { return !voting_.empty(); }  // under way
  // Why the run waits for another handler that decides between different results; null if it does
  // not wait. Valid until another method is called.
  const std::string* Undecided() const;
  // The most memory of a handler that could decide between different results, if the task needed
  // less memory; 0: there is none.
  std::uint64_t MemoryOfNewVoters() const;
  // False: an input of this task, or of this vote, is a result whose case is open. The input may
  // then be wrong, so the task may fail on every handler. True also for tasks without a case.
  bool InputsAreDecided(const tuplespace::Key& task) const;
  std::uint64_t passed() const { return counts_.passed; }
  // For lack of another handler, or of one with another key.
  std::uint64_t skipped() const { return counts_.skipped; }
  // The handlers whose results nobody has confirmed, and the keys ("name/") of all handlers in
  // skipped cases: nobody with another key has confirmed these results.
  const std::set<std::string>& unconfirmed() const { return counts_.unconfirmed.names(); }

 private:
  struct Ballot {
    std::vector<tuplespace::ClientId> by;  // for each output
    std::vector<std::optional<tuplespace::PayloadHash>> hash;
  };
  struct Case {
    std::int64_t unit = 0;
    PlannedTask task;
    std::uint64_t need_bytes = 0;
    std::vector<std::optional<SeenResult>> first;  // until all of them are there
    std::vector<Ballot> ballots;
    std::optional<AuditVote> vote;  // under way
    int votes = 0;
    bool asks_again = false;  // the vote is for an earlier voter, because no new one was there
    std::string undecided;    // why the case waits for another handler; empty: it does not
  };

  struct Counts {
    std::uint64_t passed = 0;
    std::uint64_t skipped = 0;
    Contributors unconfirmed;
  };
  struct Said {
    bool alone = false;    // there is no second handler
    bool own_key = false;  // there is none with another key
  };

  static std::set<tuplespace::ClientId> VotersOf(const Case& one);
  // The number of ballots of each voter.
  static std::map<tuplespace::ClientId, int> BallotsOf(const Case& one);
  static std::set<tuplespace::ClientId> OwnersOf(const Case& one);  // of the voters
  // Whether two clients count as two. `owners` are those of all ballots of the case.
  static bool AreTwo(const tuplespace::ClientId& a, const tuplespace::ClientId& b,
                     const std::set<tuplespace::ClientId>& owners);

  bool IsDrawn(const tuplespace::Key& task) const;
  static std::optional<AuditConflict> ConflictIn(const Case& one);
  void CheckSize(const acan::Output& output, const SeenResult& result);
  void AddWrong(const std::set<tuplespace::ClientId>& wrong, const std::string& what);
  void Proceed(AuditId id);
  bool Decide(AuditId id, const Case& one);
  bool DecideByContradiction(AuditId id, const Case& one);
  std::vector<tuplespace::ClientId> ExcludedFromNewVote(const Case& one) const;
  void ExcludeSilent(std::vector<tuplespace::ClientId>* not_by) const;
  void ExcludeSpares(const Case& one, std::vector<tuplespace::ClientId>* not_by) const;
  void AskForVote(AuditId id, Case& one);
  void Skip(const Case& one);
  void SayOnce(bool* said, std::string text);
  void TakeBackVote(AuditId id, Case& one);
  void PutWaiting();
  void AskOthers();
  bool Can(const Case& one, const std::vector<tuplespace::ClientId>& not_by,
           const std::pair<const std::string, Capacity>& handler) const;
  bool SomebodyCan(const Case& one, const std::vector<tuplespace::ClientId>& not_by) const;
  std::optional<std::vector<tuplespace::ClientId>> AskAgain(const Case& one) const;
  void Close(AuditId id);

  const double share_;
  const std::uint64_t secret_;
  std::uint64_t round_ = 0;  // of the draw: handlers have seen which tasks were drawn before
  std::map<std::string, Capacity> handlers_;
  SilentKeys silent_;
  std::set<tuplespace::ClientId> spares_;
  AuditId next_id_ = 1;
  std::map<AuditId, Case> cases_;
  std::map<tuplespace::Key, std::pair<AuditId, std::size_t>> awaited_;  // first results, for cases
  std::map<std::int64_t, std::size_t> open_;  // number of open cases, by unit
  std::set<AuditId> voting_;                  // cases with a vote under way
  std::set<AuditId> waiting_;  // cases whose first vote waits for another vote to end
  Counts counts_;
  Said said_;
  Output output_;
};

}  // namespace acan
