// HandlerTrust: whose results a manager believes. Who is quarantined gets no task; results are
// compared by audits, if the job has them; and who was wrong ends this life of the run, or the job
// where nobody can tell who it was. Pure: no clock. Owned by ManagerCore, for its thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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

  // A task of the unit is about to be put: keeps it from who is quarantined. Returns its results if
  // an audit must hear of them.
  std::vector<tuplespace::Key> OnPut(UnitId unit, PlannedTask& task);
  // An action that it returns is the last one of this life.
  std::optional<ManagerAction> OnResults(const std::vector<SeenResult>& results);
  // REQUIRES: `wrong.by` is set.
  ManagerAction OnWrongLoss(const WrongLoss& wrong) const;
  // Of a unit whose audits, if there were any, have found nothing. `what`: WrongLoss::text.
  static ManagerAction OnUnexplained(const std::string& what);
  void OnVote(const VoteDone& event);
  // `handlers`: as Audits::OnHandlers; `present`: all that are there, who is quarantined, too.
  void OnHandlers(const std::map<std::string, Capacity>& handlers,
                  const std::map<std::string, Capacity>& present);
  void Forget();  // all tasks are taken back
  // What follows from the audits; votes are leased as `policy` says.
  std::optional<ManagerAction> Follow(std::uint64_t generation, const TaskPolicy& policy,
                                      ManagerActions& out);
  // Whether no result of the unit is in doubt.
  bool IsDecided(UnitId unit) const { return !audits_ || audits_->OpenIn(unit) == 0; }
  // As Audits::Undecided.
  const std::string* Undecided() const { return audits_ ? audits_->Undecided() : nullptr; }

 private:
  const ManagerConfig& config_;
  // Who is quarantined, as TaskSpec::not_by has it. Those that are there come first.
  std::vector<tuplespace::ClientId> excluded_;
  std::optional<Audits> audits_;
};

}  // namespace acan
