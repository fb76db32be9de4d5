#include "acan/manager/manager_core.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "acan/core/schedule.h"
#include "acan/manager/pass_losses.h"
#include "acan/manager/planted.h"
#include "fmt/format.h"

namespace acan {
namespace {

constexpr std::size_t kUnitsInFlight = 3;
// The space compares the tasks of all runs, and lower numbers come first. If steps were counted
// from 0, a run at a late step would get no handler until the others had caught up. So the count
// begins anew after so many steps: the next step's tasks then come before what is left of the last
// one, but a run waits at most for about so many steps of another one.
constexpr std::int64_t kStepsInOrder = 8;

}  // namespace

ManagerCore::ManagerCore(ManagerConfig config)
    : config_(std::move(config)),
      cut_(config_),
      trust_(config_),
      policy_(MakeTaskPolicy(config_.limits)),
      pool_(config_, cut_.model()),
      evaluation_(config_.test_samples),
      safe_(config_.limits.resident_steps),
      snapshots_(config_.snapshots) {
  assert(config_.train_samples > 0);
  assert(config_.first_version == 0 || config_.load_weights);
  steps_.per_epoch = StepsPerEpoch(config_.train_samples, config_.training.batch);
  steps_.total = TotalSteps(config_.training, config_.train_samples);
  steps_.evaluate_every = config_.training.evaluate_every.value_or(steps_.per_epoch);
  assert(config_.first_version <= steps_.total);
  steps_.next = versions_.committed = versions_.reported = config_.first_version;
  versions_.safe = versions_.retired_below = config_.first_version;
  safe_.GoBackTo(config_.first_version);
}

ManagerActions ManagerCore::Step(const ManagerEvent& event, std::int64_t now_us) {
  ManagerActions out;
  if (phase_ == Phase::kNotBegun) {
    phase_ = Phase::kWorking;
    pool_.Start(now_us);
    safe_.Start(now_us);
    snapshots_.Start(now_us);
  }
  std::visit([&](const auto& e) { On(e, now_us, out); }, event);
  policy_->OnTime(now_us);
  if (phase_ != Phase::kFinished) {
    if (auto last = trust_.Follow(cut_.generation(), *policy_, out)) End(std::move(*last), out);
  }
  Advance(now_us, out);
  return out;
}

void ManagerCore::End(ManagerAction last, ManagerActions& out) {
  phase_ = Phase::kFinished;
  out.push_back(std::move(last));
}

// ---- results -----------------------------------------------------------------------------------

Unit* ManagerCore::FindCurrent(UnitId id, std::uint64_t generation) {
  return cut_.IsCurrent(generation) ? units_.Find(id) : nullptr;
}

void ManagerCore::On(const ChunkDone& event, std::int64_t now_us, ManagerActions& out) {
  Unit* unit = FindCurrent(event.unit, event.generation);
  if (unit == nullptr) return;
  liveness_.OnProgress(now_us);
  for (const tuplespace::ClientId& client : event.put_by) pool_.OnResultOf(client);
  pool_.OnTasksDone(event.tasks);
  assert(unit->in_flight >= event.tasks);
  unit->in_flight -= event.tasks;
  policy_->OnDone(static_cast<std::int64_t>(event.tasks), event.done, now_us);
  if (unit->spent) {
    RemoveResults remove;
    for (std::size_t i = 0; i < event.tasks; ++i) unit->spent->Done(event.first + i, &remove.keys);
    if (!remove.keys.empty()) out.push_back(std::move(remove));
  }
  if (auto last = trust_.OnResults(event.results)) End(std::move(*last), out);
}

void ManagerCore::On(const VoteDone& event, std::int64_t now_us, ManagerActions&) {
  if (!cut_.IsCurrent(event.generation)) return;
  liveness_.OnProgress(now_us);
  for (const SeenResult& result : event.results) pool_.OnResultOf(result.put_by);
  trust_.OnVote(event);
}

void ManagerCore::On(const LossesRead& event, std::int64_t, ManagerActions& out) {
  Unit* unit = FindCurrent(event.unit, event.generation);
  if (unit == nullptr) return;
  unit->losses = event.sums;
  const auto wrong =
      FindWrongLoss(*config_.model, cut_.Tasks(), unit->passes, *unit->losses, event.put_by);
  if (!wrong) return;
  if (wrong->by) return End(trust_.OnWrongLoss(*wrong), out);
  unit->unexplained = wrong->text;  // audits of the unit may find the cause
}

// ---- units -------------------------------------------------------------------------------------

bool ManagerCore::IsFinished(const Unit& unit) const {
  return unit.IsDone() && trust_.IsDecided(unit.id);
}

// Commits finished units, in order, and keeps the pouch full.
void ManagerCore::Advance(std::int64_t now_us, ManagerActions& out) {
  if (phase_ != Phase::kWorking) return;
  if (stop_wanted_) return SaveToStop(now_us, out);
  if (!cut_.plan()) return;
  for (;;) {
    while (!units_.empty() &&
           (IsFinished(units_.front()) ||
            (IsPlanted(ManagerBug::kCommitsUnfinishedStep) && units_.front().losses))) {
      const Unit unit = units_.TakeFront();
      if (unit.unexplained) return End(HandlerTrust::OnUnexplained(*unit.unexplained), out);
      Commit(unit, now_us, out);
    }
    for (Unit& unit : units_) PutMore(unit, now_us, out);
    if (units_.size() >= kUnitsInFlight) return;
    if (!units_.empty() && !units_.back().IsPut()) return;
    if (OpenNextUnit(out)) continue;
    if (units_.empty() && steps_.next == steps_.total) {
      End(AllDone{cut_.Tiles(steps_.total)}, out);
    }
    return;
  }
}

void ManagerCore::PutMore(Unit& unit, std::int64_t now_us, ManagerActions& out) {
  const auto left = static_cast<std::int64_t>(unit.to_put.size() - unit.next);
  if (left == 0 || unit.loads_weights) return;
  const std::int64_t count = std::min(left, policy_->Room(left, now_us));
  if (count <= 0) return;
  PutTasks put;
  put.unit = unit.id;
  put.generation = cut_.generation();
  put.first = unit.next;
  // Tasks whose results are removed one by one are large and few.
  put.report_every = unit.spent ? 1 : static_cast<std::size_t>(policy_->report_every());
  put.Reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    PlannedTask& task = unit.to_put[unit.next++];
    task.priority -= units_.front().step / kStepsInOrder * kStepsInOrder * kPrioritiesOfStep;
    put.audited.push_back(trust_.OnPut(unit.id, pool_.spares(), task));
    put.work.push_back(WorkOf(task.task));
    put.lease_us.push_back(policy_->LeaseUs(put.work.back()));
    put.done_when.push_back(task.task.outputs.front().key);
    put.tasks.push_back(std::move(task));
  }
  unit.in_flight += static_cast<std::size_t>(count);
  policy_->OnPut(count, now_us);
  out.push_back(std::move(put));
}

void ManagerCore::Commit(const Unit& unit, std::int64_t now_us, ManagerActions& out) {
  switch (unit.kind) {
    case Unit::Kind::kInitialize:
      weights_ = Weights::kThere;
      return;
    case Unit::Kind::kTrain:
      return CommitTrain(unit, now_us, out);
    case Unit::Kind::kEvaluate:
    case Unit::Kind::kEvaluateLast:
      return CommitEvaluation(unit, out);
  }
}

void ManagerCore::CommitEvaluation(const Unit& unit, ManagerActions& out) {
  const LossTotal total = SumLosses(cut_.Tasks(), unit.passes, *unit.losses, cut_.plan()->block);
  const auto all = evaluation_.Add(unit.step, total, LossesOf(*config_.model, unit.passes),
                                   unit.kind == Unit::Kind::kEvaluateLast);
  if (!all || !all->is_new) return;
  Evaluated evaluated{unit.step, unit.step / steps_.per_epoch, MeanOf(all->loss, all->losses), {}};
  if (CountsRightAnswers(*config_.model)) evaluated.accuracy = MeanOf(all->right, all->losses);
  out.push_back(evaluated);
}

void ManagerCore::CommitTrain(const Unit& unit, std::int64_t now_us, ManagerActions& out) {
  versions_.committed = unit.step + 1;
  if (versions_.committed > versions_.reported) {
    versions_.reported = versions_.committed;
    liveness_.OnNewStep();
    const std::int64_t rows = unit.passes.front().rows;
    const double losses = LossesOf(*config_.model, unit.passes);
    const LossTotal total = SumLosses(cut_.Tasks(), unit.passes, *unit.losses, cut_.plan()->block);
    out.push_back(StepCommitted{unit.step, unit.step / steps_.per_epoch, rows,
                                MeanOf(static_cast<double>(total.loss), losses),
                                LearningRateAt(config_.training, unit.step, steps_.total),
                                GradientNormOf(cut_.Tasks(), unit.passes, *unit.losses)});
  }
  KeepSafe(unit, now_us, out);
  RetireDone(out);
  if (!unit.tiles_resident || unit.step < versions_.spent_from) return;
  const bool kept = unit.step == versions_.safe || unit.step == safe_.version() ||
                    unit.step == snapshots_.version();
  out.push_back(RemoveStep{unit.step, !kept});
}

// Saves the committed version, which may otherwise be lost with a handler or with the space.
void ManagerCore::KeepSafe(const Unit& unit, std::int64_t now_us, ManagerActions& out) {
  const std::int64_t version = versions_.committed;
  if (!unit.tiles_resident) {
    versions_.safe = version;
    if (safe_.Note(version)) out.push_back(DropCopy{});
  }
  if (version == steps_.total) return;
  const bool save = snapshots_.IsDue(version, now_us);
  // A snapshot without a fixed interval waits for a version whose tiles are in the space anyway.
  const bool waits = unit.tiles_resident && !snapshots_.HasFixedSteps();
  if (save && !waits) BeginSnapshot(version, now_us, out);
  if (!unit.tiles_resident || safe_.version()) return;
  if (!safe_.IsDue(version, now_us) && !(save && waits)) return;
  safe_.Begin(version, now_us);
  out.push_back(MakeSafe{cut_.generation(), version, cut_.Tiles(version)});
}

// ---- old versions, and snapshots ---------------------------------------------------------------

void ManagerCore::RetireDone(ManagerActions& out) {
  const std::int64_t keep =
      std::min({versions_.safe, snapshots_.version().value_or(INT64_MAX),
                std::max<std::int64_t>(0, versions_.committed - config_.kept_versions)});
  if (keep <= versions_.retired_below) return;
  versions_.retired_below = keep;
  out.push_back(RetireThrough{keep - (IsPlanted(ManagerBug::kRetiresTooEarly) ? 0 : 1)});
}

void ManagerCore::On(const VersionSafe& event, std::int64_t now_us, ManagerActions& out) {
  if (!cut_.IsCurrent(event.generation) || !safe_.OnDone(event.version, now_us)) return;
  versions_.safe = std::max(versions_.safe, event.version);
  snapshots_.Expect(safe_.took_us());
  const bool could = event.version == versions_.safe && snapshots_.CouldSave(event.version);
  if (could && !snapshots_.HasFixedSteps() && snapshots_.IsDue(event.version, now_us)) {
    BeginSnapshot(event.version, now_us, out);
  }
  RetireDone(out);
}

void ManagerCore::BeginSnapshot(std::int64_t version, std::int64_t now_us, ManagerActions& out) {
  snapshots_.Begin(version, now_us);
  out.push_back(TakeSnapshot{version, cut_.Tiles(version)});
}

void ManagerCore::On(const SnapshotDone& event, std::int64_t, ManagerActions& out) {
  if (snapshots_.OnDone(event.version, event.took_us, event.written)) RetireDone(out);
}

void ManagerCore::On(const StopWanted&, std::int64_t, ManagerActions& out) {
  if (std::exchange(stop_wanted_, true) || !snapshots_.version()) return;
  out.push_back(Say{
      fmt::format("stopping: the snapshot of step {} is being written", *snapshots_.version())});
}

// The tiles of the newest version stay in the space, because no later step is committed. A snapshot
// under way is finished first: it may be the only one that can be finished in time.
void ManagerCore::SaveToStop(std::int64_t now_us, ManagerActions& out) {
  if (snapshots_.version()) return;
  const std::int64_t version = versions_.committed;
  if (!cut_.plan() || weights_ != Weights::kThere || !snapshots_.CouldSave(version)) {
    End(ReadyToStop{version, snapshots_.saved_version()}, out);
    return;
  }
  out.push_back(Say{fmt::format(
      "stopping: writing a snapshot of step {} ...; signal again to stop at once", version)});
  BeginSnapshot(version, now_us, out);
}

}  // namespace acan
