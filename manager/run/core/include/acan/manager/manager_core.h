// ManagerCore: the decisions of a manager, as a pure state machine: which tasks to put and when,
// when a step is finished and may be retired, and when the boxes must be cut anew. No socket,
// clock, file or data.
//
// Work comes in units, in a fixed order: the initial weights, then training steps, with the batches
// of an evaluation at the end of each epoch. A few units are in the space at once; their tasks wait
// there for inputs, so the manager is not on the critical path. Units are committed in order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>

#include "acan/manager/audits.h"
#include "acan/manager/current_plan.h"
#include "acan/manager/evaluation.h"
#include "acan/manager/handler_pool.h"
#include "acan/manager/handler_trust.h"
#include "acan/manager/liveness.h"
#include "acan/manager/manager_config.h"
#include "acan/manager/manager_events.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/plan.h"
#include "acan/manager/safe_timer.h"
#include "acan/manager/snapshot_timer.h"
#include "acan/manager/task_policy.h"
#include "acan/manager/unit.h"
#include "acan/manager/unit_queue.h"

namespace acan {

class ManagerCore {
 public:
  explicit ManagerCore(ManagerConfig config);
  ManagerCore(const ManagerCore&) = delete;
  ManagerCore& operator=(const ManagerCore&) = delete;

  // REQUIRES: `now_us` never goes back.
  ManagerActions Step(const ManagerEvent& event, std::int64_t now_us);

  std::int64_t NextDeadlineUs() const { return std::min(deadline_us_, policy_->NextDeadlineUs()); }
  const TaskPolicy& policy() const { return *policy_; }
  std::int64_t total_steps() const { return steps_.total; }
  std::int64_t committed_steps() const { return versions_.committed; }
  // The newest version with a snapshot; 0: none is known.
  std::int64_t saved_version() const { return snapshots_.saved_version(); }
  const std::optional<Plan>& plan() const { return cut_.plan(); }
  const std::optional<Audits>& audits() const { return trust_.audits(); }
  // Whether tasks may exclude handlers that are too slow, and that could take them.
  bool MayTakeBackSpares() const { return pool_.ExcludesSome(); }
  // Those that can compute tasks of the job now, by client id.
  const std::map<std::string, Capacity>& handlers() const { return pool_.present(); }

 private:
  enum class Phase : std::uint8_t {
    kNotBegun,
    kWorking,
    kMoving,    // MoveTiles is under way
    kFinished,  // there are no further actions
  };
  enum class Weights : std::uint8_t { kNone, kOpened, kThere };  // of the first version
  struct Steps {
    std::int64_t per_epoch = 0;
    std::int64_t total = 0;
    std::int64_t evaluate_every = 0;
    std::int64_t next = 0;  // the next step to open
  };
  // As numbers of steps.
  struct Versions {
    std::int64_t committed = 0;
    std::int64_t reported = 0;    // more than `committed` after going back
    std::int64_t safe = 0;        // the newest that is in the space whole, not just on a device
    std::int64_t spent_from = 0;  // results of earlier steps are kept until the step is retired
    std::int64_t retired_below = 0;
  };

  void On(const HandlersSeen& event, std::int64_t now_us, ManagerActions& out);
  void On(const SpaceSeen& event, std::int64_t now_us, ManagerActions& out);
  void On(const RunTasksSeen& event, std::int64_t now_us, ManagerActions& out);
  void On(const ChunkDone& event, std::int64_t now_us, ManagerActions& out);
  void On(const VoteDone& event, std::int64_t now_us, ManagerActions& out);
  void On(const LossesRead& event, std::int64_t now_us, ManagerActions& out);
  void On(const WeightsReady& event, std::int64_t now_us, ManagerActions& out);
  void On(const SnapshotDone& event, std::int64_t now_us, ManagerActions& out);
  void On(const VersionSafe& event, std::int64_t now_us, ManagerActions& out);
  void On(const StopWanted& event, std::int64_t now_us, ManagerActions& out);
  void On(const ResultsLost& event, std::int64_t now_us, ManagerActions& out);
  void On(const SparesWanted& event, std::int64_t now_us, ManagerActions& out);
  void On(const ClockTick&, std::int64_t now_us, ManagerActions& out);

  // ---- units (manager_core.cpp, manager_core_open.cpp) -----------------------------------------
  Unit* FindCurrent(UnitId id, std::uint64_t generation);
  void Advance(std::int64_t now_us, ManagerActions& out);
  bool OpenNextUnit(ManagerActions& out);
  void OpenInitialize(Unit& unit, ManagerActions& out);
  void OpenTrain(Unit& unit, ManagerActions& out);
  std::int64_t FirstSampleOf(std::int64_t step) const;  // within its epoch
  std::int64_t RowsOf(std::int64_t step) const;
  void OpenEvaluate(Unit& unit, ManagerActions& out);
  PutPassData WithCounted(PutPassData data, Pass* pass) const;
  void LetBeResident(Unit& unit, const std::set<tuplespace::Key>& read) const;
  void PutMore(Unit& unit, std::int64_t now_us, ManagerActions& out);
  bool IsFinished(const Unit& unit) const;
  void Commit(const Unit& unit, std::int64_t now_us, ManagerActions& out);
  void CommitTrain(const Unit& unit, std::int64_t now_us, ManagerActions& out);
  void CommitEvaluation(const Unit& unit, ManagerActions& out);
  void RetireDone(ManagerActions& out);
  void KeepSafe(const Unit& unit, std::int64_t now_us, ManagerActions& out);
  void BeginSnapshot(std::int64_t version, std::int64_t now_us, ManagerActions& out);
  void SaveToStop(std::int64_t now_us, ManagerActions& out);
  void End(ManagerAction last, ManagerActions& out);
  bool IsEvaluated(std::int64_t version) const;

  // ---- plans (manager_core_plan.cpp) -----------------------------------------------------------
  bool MayPlan() const { return phase_ != Phase::kFinished && phase_ != Phase::kMoving; }
  void CheckHandlers(std::int64_t now_us, ManagerActions& out);
  void CheckProgress(std::int64_t now_us, ManagerActions& out);
  void LeaveOutIdle(std::int64_t now_us, ManagerActions& out);
  void Follow(HandlerPool::Advice advice, ManagerActions& out);
  void Replan(Plan plan, ManagerActions& out);
  void GoBack(Plan plan, ManagerActions& out);

  const ManagerConfig config_;
  CurrentPlan cut_;
  HandlerTrust trust_;
  const std::unique_ptr<TaskPolicy> policy_;
  HandlerPool pool_;
  Liveness liveness_;
  Evaluation evaluation_;
  SafeTimer safe_;
  SnapshotTimer snapshots_;
  UnitQueue units_;

  std::int64_t deadline_us_ = 0;
  Phase phase_ = Phase::kNotBegun;
  bool stop_wanted_ = false;
  Weights weights_ = Weights::kNone;
  Steps steps_;
  Versions versions_;
};

}  // namespace acan
