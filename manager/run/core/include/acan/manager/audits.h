// Audits: which tasks are computed a second time by another handler, and what follows if the
// results differ. A pure state machine beside ManagerCore: no clock, no random source, no space.
//
// A drawn task is a case. Its first ballot is the results that count; a vote is the same task under
// keys of its own, for somebody who has not voted. A result that two different handlers computed is
// the right one; who computed another is wrong. Where nobody new is there, all vote once more, and
// who contradicts himself is wrong, whatever is right. Handlers with one access key are two only
// where all ballots are theirs. What has no hash is nobody's right result, however many put it.
// Whoever puts a result of another size than the task makes is wrong without any vote. Where nobody
// else is there who could vote, the case is skipped; while nobody is there at all it waits, as
// everything does. A vote names neither the first results nor whose they are, and nobody can tell
// from outside which tasks are drawn: the draw depends on a secret.
//
// Only so many votes are under way at once, those of the earliest cases: a vote may need the right
// result of an earlier case, but not that of a later one. Only a case's first vote waits for others
// to end, so that what the others need is decided.
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
#include "acan/manager/pass_tasks.h"
#include "tuplespace/messages.h"

namespace acan {

// A result as the space knows it.
struct SeenResult {
  tuplespace::Key key;
  tuplespace::ClientId put_by;
  std::optional<tuplespace::PayloadHash> hash;  // unset: it has no bytes
  std::uint64_t bytes = 0;
};

using AuditId = std::uint64_t;
struct AuditVote {
  AuditId audit = 0;
  PlannedTask task;  // its results are for OnVote, in the order of its outputs
};
struct AuditVerdict {
  std::vector<tuplespace::ClientId> wrong;  // sorted
  std::string text;                         // for people
};

class Audits {
 public:
  // With more votes under way no first one begins. The manager has a Read open for each, and a
  // broker lets it have 1,024.
  static constexpr std::size_t kMostVotes = 256;

  // `share` of all tasks, 0..1. REQUIRES: `secret` is not known to handlers.
  Audits(double share, std::uint64_t secret) : share_(share), secret_(secret) {}

  // ---- events ----------------------------------------------------------------------------------

  // Draws, and says whether the task is drawn: then its case is open until it is decided. `unit`:
  // the caller's.
  bool OnPut(std::int64_t unit, const PlannedTask& task);
  // Results of tasks, drawn or not.
  void OnResults(const std::vector<SeenResult>& results);
  void OnVote(AuditId audit, const std::vector<SeenResult>& results);
  // Who may vote: all that are present and not quarantined.
  void OnHandlers(const std::map<std::string, Capacity>& handlers);
  // All tasks are taken back.
  void Forget();

  // ---- what follows ----------------------------------------------------------------------------

  struct Output {
    std::vector<AuditVote> put;
    std::vector<std::pair<AuditId, tuplespace::Key>> drop;  // votes that nobody is left to take
    std::optional<AuditVerdict> verdict;
    // Results differ, and all who are there have said what they say: nobody is right.
    std::optional<std::string> undecided;
    std::vector<std::string> say;
  };
  Output TakeOutput() { return std::exchange(output_, {}); }

  std::size_t OpenIn(std::int64_t unit) const;
  // Why the run waits for another handler, to decide between results that differ; null: it need
  // not. Valid until the next call of another method.
  const std::string* Undecided() const;
  // False: an input of this task, or of this vote, is a result whose case is open. Then it may be
  // wrong, and the task may fail on every handler for that. True also for tasks without a case.
  bool InputsAreDecided(const tuplespace::Key& task) const;
  std::uint64_t passed() const { return passed_; }
  std::uint64_t skipped() const { return skipped_; }  // nobody else was there
  // Whose results were in the cases that were skipped: nobody has confirmed those.
  const std::set<tuplespace::ClientId>& unconfirmed() const { return unconfirmed_; }

 private:
  struct Ballot {
    std::vector<tuplespace::ClientId> by;  // for each output
    std::vector<std::optional<tuplespace::PayloadHash>> hash;
  };
  struct Case {
    std::int64_t unit = 0;
    PlannedTask task;
    std::uint64_t need_bytes = 0;
    std::vector<std::optional<SeenResult>> first;  // until all are there
    std::vector<Ballot> ballots;
    std::optional<AuditVote> vote;  // under way
    int votes = 0;
    bool asks_again = false;  // the vote is for who has voted before: nobody new was there
    std::string undecided;    // why another handler must come to decide it; empty: none must
  };

  static std::set<tuplespace::ClientId> VotersOf(const Case& one);
  // How many ballots each of them has.
  static std::map<tuplespace::ClientId, int> BallotsOf(const Case& one);
  // Whether two clients count as two. `owners`: of all ballots of the case.
  static bool AreTwo(const tuplespace::ClientId& a, const tuplespace::ClientId& b,
                     const std::set<tuplespace::ClientId>& owners);

  bool IsDrawn(const tuplespace::Key& task) const;
  void CheckSize(const acan::Output& output, const SeenResult& result);
  void AddWrong(const std::set<tuplespace::ClientId>& wrong, const std::string& what);
  void Proceed(AuditId id);
  bool Decide(AuditId id, const Case& one);
  bool DecideByContradiction(AuditId id, const Case& one);
  std::vector<tuplespace::ClientId> NewVoters(const Case& one) const;
  void AskForVote(AuditId id, Case& one);
  void TakeBackVote(AuditId id, Case& one);
  void PutWaiting();
  bool SomebodyCan(const Case& one, const std::vector<tuplespace::ClientId>& not_by) const;
  std::optional<std::vector<tuplespace::ClientId>> AskAgain(const Case& one) const;
  void Close(AuditId id);

  const double share_;
  const std::uint64_t secret_;
  std::map<std::string, Capacity> handlers_;
  AuditId next_id_ = 1;
  std::map<AuditId, Case> cases_;
  std::map<tuplespace::Key, std::pair<AuditId, std::size_t>> awaited_;  // first results, of cases
  std::map<std::int64_t, std::size_t> open_;                            // cases of each unit
  std::set<AuditId> voting_;   // cases with a vote under way
  std::set<AuditId> waiting_;  // cases whose first vote waits for one of these to end
  std::uint64_t passed_ = 0;
  std::uint64_t skipped_ = 0;
  std::set<tuplespace::ClientId> unconfirmed_;
  bool said_alone_ = false;
  Output output_;
};

}  // namespace acan
