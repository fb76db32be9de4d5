// ManagerCore: what a manager decides, as a pure state machine: which tasks to put when, when a
// step is finished and may be retired, when the boxes must be cut anew. No socket, clock, file or
// data.
//
// Work comes in units, in one fixed order: the initial weights, then training steps, with the
// batches of an evaluation where an epoch ends. A few units are in the space at once; the tasks
// wait there for their inputs, so the manager is not on the critical path. Units are committed in
// order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "acan/core/model.h"
#include "acan/core/names.h"
#include "acan/manager/audits.h"
#include "acan/manager/graph.h"
#include "acan/manager/job.h"
#include "acan/manager/liveness.h"
#include "acan/manager/plan.h"
#include "acan/manager/spent_results.h"
#include "acan/manager/task_policy.h"

namespace acan {

// When the state of the run is written to disk.
struct SnapshotPolicy {
  // Steps between two; unset: as often as costs least in all, by Young's rule (J. W. Young, "A
  // first order approximation to the optimum checkpoint interval", 1974) from what one took and how
  // often the run was lost.
  std::optional<std::int64_t> every_steps;
  double past_seconds = 0;  // of the run's earlier lives
  std::int64_t failures = 0;
  std::int64_t saved_version = 0;  // the newest that has a snapshot; 0 needs none
};

struct ManagerConfig {
  Model model;
  Training training;
  TaskLimits limits;
  std::string run;  // names this run's tuples
  std::int64_t train_samples = 0;
  std::int64_t test_samples = 0;
  bool load_weights = false;                // the weights of first_version come from outside
  std::int64_t first_version = 0;           // steps that an earlier life of the run has done
  std::optional<SnapshotPolicy> snapshots;  // unset: none
  int expected_handlers = 0;                // wait for so many before planning, for a while
  bool fixed_handlers = false;              // no others will come: do not wait for a larger one
  double overhead_us = 0;                   // of a task beside its computing; 0: not measured
  std::uint64_t audit_secret = 0;  // decides which tasks are audited (limits.audit of them)
  std::uint64_t least_removed_bytes = UINT64_MAX;  // of results that go when spent
  std::set<tuplespace::ClientId> quarantined;      // handlers that were wrong: no task goes to them
  std::int64_t kept_versions = 0;  // so many before the newest stay in the space, whole
};

using UnitId = std::int64_t;

// ---- events ------------------------------------------------------------------------------------

struct HandlersSeen {
  std::map<std::string, Capacity> handlers;
};  // by client id; all present
struct ChunkDone {
  UnitId unit = 0;
  std::uint64_t generation = 0;
  std::size_t first = 0;  // its first task's place in the unit
  std::size_t tasks = 0;
  std::vector<TaskDone> done = {};       // what is known of them
  std::vector<SeenResult> results = {};  // of those of done_when and audited
};
struct VoteDone {
  AuditId audit = 0;
  std::uint64_t generation = 0;
  std::vector<SeenResult> results;
};
// Sums of a unit's passes, in the order of Graph::Losses of each pass.
struct LossesRead {
  UnitId unit = 0;
  std::uint64_t generation = 0;
  std::vector<std::vector<float>> sums;      // each: loss and, for classes, right answers
  std::vector<tuplespace::ClientId> put_by;  // of each
};
struct WeightsReady {
  std::uint64_t generation = 0;
};  // after LoadWeights or MoveTiles
// The snapshot that was asked for is on disk, or could not be written.
struct SnapshotDone {
  std::int64_t version = 0;
  std::int64_t took_us = 0;
  bool written = true;
};
// Somebody wants the run to stop: nothing is begun any more, the newest version is saved, and then
// ReadyToStop comes. A run whose tasks are all done finishes instead.
struct StopWanted {};
// Results that stayed on a device are gone.
struct ResultsLost {
  std::string why;
};
// Answers Stalled: who has done a task since this manager leads.
struct WorkersSeen {
  std::set<tuplespace::ClientId> workers;
};
struct ClockTick {};
using ManagerEvent =
    std::variant<HandlersSeen, SpaceSeen, ChunkDone, VoteDone, LossesRead, WeightsReady,
                 SnapshotDone, StopWanted, ResultsLost, WorkersSeen, ClockTick>;

// ---- actions -----------------------------------------------------------------------------------

struct PutPassData {
  Pass pass;
  std::int64_t first_sample = 0;
  bool test = false;
  std::int64_t epoch = 0;
};
struct PutTasks {
  UnitId unit = 0;
  std::uint64_t generation = 0;
  std::size_t first = 0;  // place in the unit of the first task; the others follow it
  std::vector<PlannedTask> tasks;
  std::vector<tuplespace::Key> done_when;  // one result of each task: those that are there are done
  std::vector<std::vector<tuplespace::Key>>
      audited;                         // of each task: its other results, if it is audited
  std::vector<Work> work;              // of each task
  std::vector<std::int64_t> lease_us;  // of each task
  std::size_t report_every = 1;        // a ChunkDone for so many tasks, in this order
};
// A task of an audit: when all its results are there, VoteDone.
struct PutVote {
  std::uint64_t generation = 0;
  AuditVote vote;
  std::int64_t lease_us = 0;
};
// Nobody is left who could take it: no VoteDone.
struct DropVote {
  AuditId audit = 0;
  tuplespace::Key task;
};
// These handlers computed wrong results. Whatever may be made of any result of theirs must not be
// used: this life of the run is over.
struct Quarantine {
  AuditVerdict verdict;
};
struct ReadLosses {
  UnitId unit = 0;
  std::uint64_t generation = 0;
  std::vector<tuplespace::Key> keys;
};
struct LoadWeights {
  std::uint64_t generation = 0;
  std::int64_t version = 0;
  std::vector<TileCell> tiles;
};
// Of a unit that goes on.
struct RemoveResults {
  std::vector<tuplespace::Key> keys;
};
// All that the tasks of a step made for each other, and what they were given; not tiles.
struct RemoveStep {
  std::int64_t step = 0;
};
struct RetireThrough {
  std::int64_t step = 0;
};
// The run goes back to `version`: tasks and all that was made of later steps is removed, open
// requests are forgotten, and the tiles `from` are put as `to` (if they differ).
struct MoveTiles {
  std::uint64_t generation = 0;
  std::int64_t version = 0;
  std::vector<TileCell> from, to;
};
// Writes the tiles of a version to disk, beside everything else; then SnapshotDone. The tiles stay
// in the space until then.
struct TakeSnapshot {
  std::int64_t version = 0;
  std::vector<TileCell> tiles;
};
// The snapshot under way is not wanted any more: no SnapshotDone.
struct DropSnapshot {};
// The run makes no progress: somebody should hear what it waits for. Answered by WorkersSeen if
// `asks_who_works`.
struct Stalled {
  std::int64_t step = 0;
  double seconds = 0;         // without progress
  std::size_t in_flight = 0;  // tasks of the oldest unit that are not done
  SpaceSeen space;
  bool asks_who_works = false;
};
// What could be saved before the stop that was asked for is saved.
struct ReadyToStop {
  std::int64_t version = 0;        // the steps that are done
  std::int64_t saved_version = 0;  // those that the newest snapshot has
};
struct StepCommitted {
  std::int64_t step = 0, epoch = 0, rows = 0;
  double loss = 0, learning_rate = 0;
};
struct Evaluated {
  std::int64_t step = 0, epoch = 0;
  double loss = 0;
  std::optional<double> accuracy;
};
struct Say {
  std::string text;
};
struct GiveUp {
  std::string text;
};  // the job cannot go on
struct AllDone {
  std::vector<TileCell> tiles;
};  // the final weights

using ManagerAction =
    std::variant<PutPassData, PutTasks, PutVote, DropVote, Quarantine, ReadLosses, LoadWeights,
                 RemoveResults, RemoveStep, RetireThrough, MoveTiles, TakeSnapshot, DropSnapshot,
                 Stalled, ReadyToStop, StepCommitted, Evaluated, Say, GiveUp, AllDone>;

class ManagerCore {
 public:
  explicit ManagerCore(ManagerConfig config);

  // REQUIRES: `now_us` never goes back.
  std::vector<ManagerAction> Step(const ManagerEvent& event, std::int64_t now_us);

  std::int64_t NextDeadlineUs() const { return std::min(deadline_us_, policy_->NextDeadlineUs()); }
  const TaskPolicy& policy() const { return *policy_; }
  std::int64_t total_steps() const { return total_steps_; }
  std::int64_t committed_steps() const { return committed_steps_; }
  const std::optional<Plan>& plan() const { return plan_; }
  const std::optional<Audits>& audits() const { return audits_; }

 private:
  enum class UnitKind : std::uint8_t { kInitialize, kTrain, kEvaluate };
  struct Unit {
    UnitId id = 0;
    UnitKind kind = UnitKind::kTrain;
    std::int64_t step = 0;  // training: the step; evaluation: the version
    std::vector<Pass> passes;
    std::vector<PlannedTask> waiting;   // not put yet, in an order in which they can run
    std::size_t next = 0;               // into `waiting`
    bool tiles_stay = false;            // those that it makes may stay on a device
    std::optional<SpentResults> spent;  // unset: all are kept until the unit is committed
    std::size_t in_flight = 0;
    bool weights_pending = false;  // LoadWeights is under way
    bool losses_wanted = false;
    std::optional<std::vector<std::vector<float>>> losses;
    bool last_of_evaluation = false;
    bool Done() const {
      return next == waiting.size() && in_flight == 0 && !weights_pending &&
             (!losses_wanted || losses.has_value());
    }
  };
  using Actions = std::vector<ManagerAction>;

  void On(const HandlersSeen& event, std::int64_t now_us, Actions& out);
  void On(const SpaceSeen& event, std::int64_t now_us, Actions& out);
  void On(const ChunkDone& event, std::int64_t now_us, Actions& out);
  void On(const VoteDone& event, std::int64_t now_us, Actions& out);
  void On(const LossesRead& event, std::int64_t now_us, Actions& out);
  void On(const WeightsReady& event, std::int64_t now_us, Actions& out);
  void On(const SnapshotDone& event, std::int64_t now_us, Actions& out);
  void On(const StopWanted& event, std::int64_t now_us, Actions& out);
  void On(const ResultsLost& event, std::int64_t now_us, Actions& out);
  void On(const WorkersSeen& event, std::int64_t now_us, Actions& out);
  void On(const ClockTick&, std::int64_t now_us, Actions& out);

  void CheckProgress(std::int64_t now_us, Actions& out);
  void CheckHandlers(std::int64_t now_us, Actions& out);
  std::uint64_t LargestMemory() const;  // of a handler
  std::uint64_t PlanningCapacity() const;
  std::optional<Plan> PlanFor(std::uint64_t capacity_bytes, std::uint64_t* smallest) const;
  void TryToPlan(std::int64_t now_us, Actions& out);
  void Replan(Plan plan, Actions& out);
  void GoBack(Plan plan, Actions& out);
  void NameTooSmall(std::uint64_t smallest, Actions& out);
  void Advance(Actions& out);
  bool OpenNextUnit(Actions& out);
  void OpenInitialize(Unit& unit, Actions& out);
  void OpenTrain(Unit& unit, Actions& out);
  void OpenEvaluate(Unit& unit, Actions& out);
  void PutMore(Unit& unit, Actions& out);
  void FollowAudits(Actions& out);
  bool IsFinished(const Unit& unit) const;
  void Commit(const Unit& unit, Actions& out);
  void CommitTrain(const Unit& unit, Actions& out);
  void RetireDone(Actions& out);
  void LetStay(Unit& unit);
  void RemoveTiles(std::int64_t version, Actions& out) const;
  void SnapshotIfDue(Actions& out);
  void BeginSnapshot(Actions& out);
  void SaveToStop(Actions& out);
  std::int64_t SnapshotIntervalUs() const;
  Unit* Find(UnitId id);
  void CheckLosses(const Unit& unit, const std::vector<tuplespace::ClientId>& put_by, Actions& out);
  std::vector<float> SumLosses(const Unit& unit) const;
  double LossesPerSample() const;
  Graph MakeGraph() const { return {config_.model, config_.training, *plan_}; }

  const ManagerConfig config_;
  const std::unique_ptr<TaskPolicy> policy_;
  std::int64_t steps_per_epoch_ = 0;
  std::int64_t total_steps_ = 0;

  std::int64_t now_us_ = 0;
  std::map<std::string, Capacity> handlers_;
  std::set<tuplespace::ClientId> idlers_;  // could take tasks and never did: not planned with
  Liveness liveness_;
  std::map<std::string, bool> named_too_small_;
  std::int64_t started_us_ = -1;
  std::uint64_t hopeless_bytes_ = 0;       // for a largest handler of so much there is no plan
  std::uint64_t smallest_need_bytes_ = 0;  // of the largest task, when that was tried
  std::int64_t unfit_since_us_ = -1;       // nobody present can hold the largest task
  std::int64_t said_us_ = -1;
  bool said_waiting_ = false;
  std::int64_t deadline_us_ = 0;

  std::optional<Plan> plan_;
  std::uint64_t generation_ = 0;  // of the plan: answers to older ones are ignored
  bool moving_ = false;           // MoveTiles is under way
  bool finished_ = false;

  std::optional<Audits> audits_;  // unset: no task is audited

  std::deque<Unit> units_;
  UnitId next_unit_ = 1;
  bool initialized_ = false;  // version 0 is there
  bool initialize_opened_ = false;
  std::int64_t next_step_ = 0;           // to open
  std::int64_t evaluate_next_ = 0;       // next test sample of the evaluation that is being opened
  bool evaluated_next_ = false;          // the evaluation of version next_step_ is opened whole
  std::int64_t evaluated_version_ = -1;  // the last one that was committed
  std::int64_t committed_steps_ = 0;
  std::int64_t reported_steps_ = 0;   // more than committed ones after going back
  std::int64_t spent_from_step_ = 0;  // of earlier steps nothing is removed before it is retired
  std::int64_t retired_below_ = 0;    // this step
  std::int64_t safe_version_ = 0;  // the newest that is in the space whole: no device has to live
  std::optional<std::int64_t> snapshot_version_;  // under way
  std::int64_t snapshot_begun_us_ = 0;            // the last one; at first the start
  std::int64_t snapshot_took_us_;
  std::int64_t saved_version_ = 0;    // the newest with a snapshot
  std::int64_t unsaved_version_ = 0;  // the newest whose snapshot could not be written
  bool stopping_ = false;
  double evaluation_loss_ = 0;
  double evaluation_right_ = 0;
};

}  // namespace acan
