// HandlerTrust: decides which handlers' results a manager trusts. Quarantined handlers get no
// tasks, and audits, if the job has them, compare results. A wrong handler ends this life of the
// run; if nobody can tell which handler was wrong, the job ends. Pure: no clock. Owned by
// ManagerCore, for its thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "acan/manager/audits.h"
#include "acan/manager/manager_config.h"
#include "acan/manager/manager_events.h"
#include "acan/manager/pass_losses.h"
#include "acan/manager/task_policy.h"

namespace acan {

class HandlerTrust {
 public:
  // `config` must outlive it.
  explicit HandlerTrust(const ManagerConfig& config);
  HandlerTrust(const HandlerTrust&) = delete;
  HandlerTrust& operator=(const HandlerTrust&) = delete;

  const std::optional<Audits>& audits() const { return audits_; }  // unset: no task is audited

  // A task of the unit is about to be put: excludes quarantined handlers from it, and, as far as it
  // can name them, the spares. Returns the keys of its results if it is audited.
  std::vector<tuplespace::Key> OnPut(UnitId unit, const std::set<tuplespace::ClientId>& spares,
                                     PlannedTask& task);
  // If it returns an action, this is the last one of this life.
  std::optional<ManagerAction> OnResults(const std::vector<SeenResult>& results);
  // REQUIRES: `wrong.by` is set.
  ManagerAction OnWrongLoss(const WrongLoss& wrong) const;
  // For a unit whose audits, if any, have found nothing. `what` is WrongLoss::text.
  static ManagerAction OnUnexplained(const std::string& what);
  void OnVote(const VoteDone& event);
  // `handlers`: as for Audits::OnHandlers. `seen` has quarantined ones, too.
  void OnHandlers(const std::map<std::string, Capacity>& handlers, const HandlersSeen& seen);
  void SetSpares(const std::set<tuplespace::ClientId>& spares) {  // as Audits::SetSpares
    if (audits_) audits_->SetSpares(spares);
  }
  void Forget();  // all tasks are withdrawn
  // As the methods of Audits.
  bool HasVotes() const { return audits_ && audits_->HasVotes(); }
  void LeaveOutSilent(bool workers_too) { audits_->LeaveOutSilent(workers_too); }
  // What follows from the audits. `policy` determines the leases of votes.
  std::optional<ManagerAction> Follow(std::uint64_t generation, const TaskPolicy& policy,
                                      ManagerActions& out);
  // Whether no audit of the unit is undecided.
  bool IsDecided(UnitId unit) const { return !audits_ || audits_->OpenIn(unit) == 0; }
  // As Audits::MemoryOfNewVoters.
  std::uint64_t MemoryOfNewVoters() const { return audits_ ? audits_->MemoryOfNewVoters() : 0; }
  // As Audits::Undecided.
  const std::string* Undecided() const { return audits_ ? audits_->Undecided() : nullptr; }

 private:
  const ManagerConfig& config_;
  // The quarantined handlers, as for TaskSpec::not_by. Those that are present come first.
  std::vector<tuplespace::ClientId> excluded_;
  bool others_will_come_ = false;  // HandlersSeen::missing
  std::optional<Audits> audits_;
};

}  // namespace acan
