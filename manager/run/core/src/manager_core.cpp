#include "acan/manager/manager_core.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "acan/core/schedule.h"
#include "fmt/format.h"
#include "tuplespace/planted.h"

namespace acan {
namespace {

using tuplespace::IsPlanted;
using tuplespace::Planted;

constexpr std::size_t kUnitsInFlight = 3;
// Until one was taken.
constexpr std::int64_t kAssumedSnapshotUs = 50'000;
constexpr double kAssumedSecondsBetweenFailures = 3600;
// Whoever is lost young is often lost young: the first comes soon, the next ones later and later,
// up to what Young's rule says. None takes more than this share of the time.
constexpr std::int64_t kFirstSnapshotUs = 1'000'000;
constexpr std::int64_t kLeastIntervalsOfOne = 10;
// A snapshot keeps its tiles from being retired: then the space would fill.
constexpr std::int64_t kMostStepsBeyondSnapshot = 16;
constexpr std::int64_t kEvaluationRows = 1024;  // of the test set in one unit, about

}  // namespace

ManagerCore::ManagerCore(ManagerConfig config)
    : config_(std::move(config)),
      policy_(MakeTaskPolicy(config_.limits)),
      snapshot_took_us_(kAssumedSnapshotUs) {
  assert(config_.train_samples > 0);
  assert(config_.first_version == 0 || config_.load_weights);
  steps_per_epoch_ = StepsPerEpoch(config_.train_samples, config_.training.batch);
  total_steps_ = steps_per_epoch_ * config_.training.epochs;
  assert(config_.first_version <= total_steps_);
  next_step_ = committed_steps_ = reported_steps_ = config_.first_version;
  safe_version_ = retired_below_ = config_.first_version;
  if (config_.snapshots) saved_version_ = config_.snapshots->saved_version;
  if (config_.limits.audit > 0) audits_.emplace(config_.limits.audit, config_.audit_secret);
}

std::vector<ManagerAction> ManagerCore::Step(const ManagerEvent& event, std::int64_t now_us) {
  Actions out;
  if (started_us_ < 0) started_us_ = snapshot_begun_us_ = now_us;
  now_us_ = now_us;
  std::visit([&](const auto& e) { On(e, now_us, out); }, event);
  policy_->OnTime(now_us);
  FollowAudits(out);
  Advance(out);
  return out;
}

// ---- units
// ---------------------------------------------------------------------------------------

ManagerCore::Unit* ManagerCore::Find(UnitId id) {
  for (Unit& unit : units_) {
    if (unit.id == id) return &unit;
  }
  return nullptr;
}

void ManagerCore::On(const ChunkDone& event, std::int64_t now_us, Actions& out) {
  Unit* unit = Find(event.unit);
  if (event.generation != generation_ || unit == nullptr) return;
  liveness_.OnProgress(now_us);
  assert(unit->in_flight >= event.tasks);
  unit->in_flight -= event.tasks;
  policy_->OnDone(static_cast<std::int64_t>(event.tasks), event.done, now_us);
  if (unit->spent) {
    RemoveResults remove;
    for (std::size_t i = 0; i < event.tasks; ++i) unit->spent->Done(event.first + i, &remove.keys);
    if (!remove.keys.empty()) out.push_back(std::move(remove));
  }
  if (!audits_) return;
  for (const SeenResult& result : event.results) {
    if (config_.quarantined.count(result.put_by) == 0) continue;
    // It got no task, so it guessed the name of the run and put this on purpose.
    finished_ = true;
    out.push_back(
        GiveUp{fmt::format("handler {} is quarantined, but has put {}: end it, or revoke its key",
                           result.put_by, result.key.ToString())});
    return;
  }
  audits_->OnResults(event.results);
}

void ManagerCore::On(const VoteDone& event, std::int64_t, Actions&) {
  if (event.generation == generation_ && audits_) audits_->OnVote(event.audit, event.results);
}

void ManagerCore::FollowAudits(Actions& out) {
  if (!audits_ || finished_) return;
  Audits::Output audit = audits_->TakeOutput();
  for (std::string& line : audit.say) out.push_back(Say{std::move(line)});
  for (auto& [id, task] : audit.drop) out.push_back(DropVote{id, std::move(task)});
  for (AuditVote& vote : audit.put) {
    vote.task.not_by.insert(vote.task.not_by.end(), config_.quarantined.begin(),
                            config_.quarantined.end());
    const std::int64_t lease_us = policy_->LeaseUs({vote.task.task.kind, Flops(vote.task.task)});
    out.push_back(PutVote{generation_, std::move(vote), lease_us});
  }
  if (audit.verdict) {
    finished_ = true;
    out.push_back(Quarantine{std::move(*audit.verdict)});
  } else if (audit.undecided && config_.fixed_handlers) {
    finished_ = true;
    out.push_back(GiveUp{*audit.undecided + ": start it with three handlers or more"});
  }
}

bool ManagerCore::IsFinished(const Unit& unit) const {
  return unit.Done() && (!audits_ || audits_->OpenIn(unit.id) == 0);
}

void ManagerCore::On(const LossesRead& event, std::int64_t, Actions& out) {
  Unit* unit = Find(event.unit);
  if (event.generation != generation_ || unit == nullptr) return;
  unit->losses = event.sums;
  CheckLosses(*unit, event.put_by, out);
}

// No inputs, however wrong, give a negative loss, a number of right answers that is none, or sums
// of another size. Who says so computes wrong, whether it was audited or not.
void ManagerCore::CheckLosses(const Unit& unit, const std::vector<tuplespace::ClientId>& put_by,
                              Actions& out) {
  const Graph graph = MakeGraph();
  const std::size_t size = config_.model.loss == Loss::kCrossEntropy ? 2 : 1;
  std::size_t next = 0;
  for (const Pass& pass : unit.passes) {
    for (const auto& [key, rows] : graph.Losses(pass)) {
      const std::vector<float>& sums = unit.losses->at(next);
      const tuplespace::ClientId& by = put_by.at(next++);
      const float right = sums.size() > 1 ? sums[1] : 0;
      const bool counts =
          right >= 0 && right <= static_cast<float>(rows.size()) && right == std::floor(right);
      const bool fits = sums.size() == size;
      if (fits && counts && !(sums[0] < 0)) continue;
      const std::string text =
          fits ? fmt::format("{} says that {} samples have a loss of {} and {} right answers",
                             key.ToString(), rows.size(), sums[0], right)
               : fmt::format("{} has another size than {} bytes", key.ToString(), 4 * size);
      finished_ = true;
      if (audits_) {
        out.push_back(Quarantine{{{by}, text}});
      } else {
        out.push_back(GiveUp{fmt::format(
            "handler {} computes wrong: {}; run again without it, or with [tasks] audit", by,
            text)});
      }
      return;
    }
  }
}

// Commits what is finished, in order, and keeps the pouch full.
void ManagerCore::Advance(Actions& out) {
  if (moving_ || finished_) return;
  if (stopping_) return SaveToStop(out);
  if (!plan_) return;
  for (;;) {
    while (!units_.empty() &&
           (IsFinished(units_.front()) ||
            (IsPlanted(Planted::kCommitsUnfinishedStep) && units_.front().losses))) {
      const Unit unit = std::move(units_.front());
      units_.pop_front();
      Commit(unit, out);
    }
    for (Unit& unit : units_) PutMore(unit, out);
    if (units_.size() >= kUnitsInFlight) return;
    if (!units_.empty() && units_.back().next < units_.back().waiting.size()) return;
    if (OpenNextUnit(out)) continue;
    if (units_.empty() && next_step_ == total_steps_) {
      finished_ = true;
      out.push_back(AllDone{MakeGraph().Tiles(config_.run, total_steps_)});
    }
    return;
  }
}

bool ManagerCore::OpenNextUnit(Actions& out) {
  Unit unit;
  unit.id = next_unit_;
  const bool epoch_end =
      next_step_ % steps_per_epoch_ == 0 && (next_step_ > 0 || total_steps_ == 0);
  if (!initialize_opened_) {
    initialize_opened_ = true;
    OpenInitialize(unit, out);
  } else if (epoch_end && config_.test_samples > 0 && !evaluated_next_) {
    OpenEvaluate(unit, out);
  } else if (snapshot_version_ && next_step_ > *snapshot_version_ + kMostStepsBeyondSnapshot) {
    return false;
  } else if (next_step_ < total_steps_) {
    evaluated_next_ = false;
    OpenTrain(unit, out);
    ++next_step_;
  } else {
    return false;
  }
  policy_->MarkChunks(unit.waiting);
  // An audit needs the inputs of its task for as long as it can be asked for.
  if (!audits_ && unit.step >= spent_from_step_) {
    unit.spent.emplace(unit.waiting, config_.least_removed_bytes);
    if (unit.spent->empty()) unit.spent.reset();
  }
  ++next_unit_;
  units_.push_back(std::move(unit));
  return true;
}

void ManagerCore::OpenInitialize(Unit& unit, Actions& out) {
  unit.kind = UnitKind::kInitialize;
  if (config_.load_weights) {
    unit.weights_pending = true;
    out.push_back(LoadWeights{generation_, config_.first_version,
                              MakeGraph().Tiles(config_.run, config_.first_version)});
  } else {
    unit.waiting = MakeGraph().Initialize(config_.run);
  }
}

void ManagerCore::OpenTrain(Unit& unit, Actions& out) {
  const std::int64_t epoch = next_step_ / steps_per_epoch_;
  const std::int64_t first = next_step_ % steps_per_epoch_ * config_.training.batch;
  unit.kind = UnitKind::kTrain;
  unit.step = next_step_;
  Pass pass;
  pass.job = config_.run;
  pass.step = next_step_;
  pass.rows = std::min(config_.training.batch, config_.train_samples - first);
  pass.optimizer = OptimizerScalarsAt(config_.training, next_step_, total_steps_);
  pass.timed = policy_->timed();
  out.push_back(PutPassData{pass, first, false, epoch});
  const Graph graph = MakeGraph();
  unit.waiting = graph.Tasks(pass);
  LetStay(unit);
  ReadLosses read{unit.id, generation_, {}};
  for (const auto& [key, rows] : graph.Losses(pass)) read.keys.push_back(key);
  unit.losses_wanted = true;
  unit.passes.push_back(std::move(pass));
  out.push_back(std::move(read));
}

// Large results may stay on devices with memory of their own: tiles, save those of each so many
// steps, and what only the tasks of the unit read if there is but one handler to read it.
void ManagerCore::LetStay(Unit& unit) {
  const auto has_own = [](const auto& handler) { return handler.second.own_memory; };
  const bool any = std::any_of(handlers_.begin(), handlers_.end(), has_own);
  // An audit compares bytes.
  const bool kept = config_.kept_versions > 0;
  if (!any || audits_ || kept || config_.limits.resident_steps <= 1) return;
  const std::int64_t version = unit.step + 1;
  const bool tiles_stay = version % config_.limits.resident_steps != 0 && version != total_steps_;
  const bool others_stay = handlers_.size() == 1;
  for (PlannedTask& task : unit.waiting) {
    for (Output& output : task.task.outputs) {
      const bool large = output.view.bytes() >= config_.least_removed_bytes;
      output.may_stay = large && (output.keep ? tiles_stay : others_stay);
      unit.tiles_stay = unit.tiles_stay || (output.keep && output.may_stay);
    }
  }
}

void ManagerCore::OpenEvaluate(Unit& unit, Actions& out) {
  unit.kind = UnitKind::kEvaluate;
  unit.step = next_step_;
  unit.losses_wanted = true;
  const Graph graph = MakeGraph();
  const std::int64_t batch = plan_->batch;
  ReadLosses read{unit.id, generation_, {}};
  const std::int64_t end =
      std::min(config_.test_samples, evaluate_next_ + std::max(batch, kEvaluationRows));
  while (evaluate_next_ < end) {
    Pass pass;
    pass.job = config_.run;
    pass.step = next_step_;
    pass.batch_id = evaluate_next_ / batch + 1;
    pass.rows = std::min(batch, config_.test_samples - evaluate_next_);
    pass.train = false;
    pass.timed = policy_->timed();
    out.push_back(PutPassData{pass, evaluate_next_, true, 0});
    for (PlannedTask& task : graph.Tasks(pass)) unit.waiting.push_back(std::move(task));
    for (const auto& [key, rows] : graph.Losses(pass)) read.keys.push_back(key);
    unit.passes.push_back(pass);
    evaluate_next_ += pass.rows;
  }
  out.push_back(std::move(read));
  if (evaluate_next_ >= config_.test_samples) {
    unit.last_of_evaluation = true;
    evaluate_next_ = 0;
    evaluated_next_ = true;
  }
}

void ManagerCore::PutMore(Unit& unit, Actions& out) {
  const auto left = static_cast<std::int64_t>(unit.waiting.size() - unit.next);
  if (left == 0 || unit.weights_pending) return;
  const std::int64_t count = std::min(left, policy_->Room(left, now_us_));
  if (count <= 0) return;
  PutTasks put;
  put.unit = unit.id;
  put.generation = generation_;
  put.first = unit.next;
  // Such tasks are large ones, and few.
  put.report_every = unit.spent ? 1 : static_cast<std::size_t>(policy_->report_every());
  for (std::int64_t i = 0; i < count; ++i) {
    PlannedTask& task = unit.waiting[unit.next++];
    const std::vector<Output>& outputs = task.task.outputs;
    put.audited.emplace_back();
    if (audits_ && audits_->OnPut(unit.id, task)) {
      for (std::size_t o = 1; o < outputs.size(); ++o) put.audited.back().push_back(outputs[o].key);
    }
    task.not_by.assign(config_.quarantined.begin(), config_.quarantined.end());
    put.work.push_back({task.task.kind, Flops(task.task)});
    put.lease_us.push_back(policy_->LeaseUs(put.work.back()));
    put.done_when.push_back(outputs.front().key);
    put.tasks.push_back(std::move(task));
  }
  unit.in_flight += static_cast<std::size_t>(count);
  policy_->OnPut(count, now_us_);
  out.push_back(std::move(put));
}

// The canonical sum over all samples of each pass, passes one after the other.
std::vector<float> ManagerCore::SumLosses(const Unit& unit) const {
  const Graph graph = MakeGraph();
  std::vector<float> total(2, 0.0f);
  std::size_t next = 0;
  for (const Pass& pass : unit.passes) {
    std::vector<Range> ranges;
    for (const auto& [key, rows] : graph.Losses(pass)) ranges.push_back(rows);
    std::vector<std::vector<float>> sums(
        unit.losses->begin() + static_cast<std::ptrdiff_t>(next),
        unit.losses->begin() + static_cast<std::ptrdiff_t>(next + ranges.size()));
    next += ranges.size();
    for (const Combine& combine : CombineOrder(ranges, plan_->block)) {
      for (std::size_t i = 0; i < sums[combine.left].size(); ++i) {
        sums[combine.left][i] += sums[combine.right][i];
      }
    }
    for (std::size_t i = 0; i < sums.front().size(); ++i) total[i] += sums.front()[i];
  }
  return total;
}

void ManagerCore::Commit(const Unit& unit, Actions& out) {
  switch (unit.kind) {
    case UnitKind::kInitialize:
      initialized_ = true;
      return;
    case UnitKind::kTrain:
      return CommitTrain(unit, out);
    case UnitKind::kEvaluate: {
      const std::vector<float> sums = SumLosses(unit);
      evaluation_loss_ += static_cast<double>(sums[0]);
      evaluation_right_ += static_cast<double>(sums[1]);
      if (!unit.last_of_evaluation) return;
      const auto samples = static_cast<double>(config_.test_samples);
      Evaluated evaluated{unit.step,
                          unit.step / steps_per_epoch_,
                          evaluation_loss_ / (samples * LossesPerSample()),
                          {}};
      if (config_.model.loss == Loss::kCrossEntropy)
        evaluated.accuracy = evaluation_right_ / samples;
      evaluation_loss_ = evaluation_right_ = 0;
      // One that was evaluated before the run went back is not told again.
      if (unit.step > evaluated_version_) out.push_back(evaluated);
      evaluated_version_ = std::max(evaluated_version_, unit.step);
      return;
    }
  }
}

double ManagerCore::LossesPerSample() const {
  return config_.model.loss == Loss::kCrossEntropy
             ? 1.0
             : static_cast<double>(config_.model.layers.back());
}

void ManagerCore::CommitTrain(const Unit& unit, Actions& out) {
  committed_steps_ = unit.step + 1;
  if (!unit.tiles_stay) safe_version_ = committed_steps_;
  if (committed_steps_ > reported_steps_) {
    reported_steps_ = committed_steps_;
    liveness_.OnNewStep();
    const std::int64_t rows = unit.passes.front().rows;
    const double values = static_cast<double>(rows) * LossesPerSample();
    out.push_back(StepCommitted{unit.step, unit.step / steps_per_epoch_, rows,
                                static_cast<double>(SumLosses(unit)[0]) / values,
                                LearningRateAt(config_.training, unit.step, total_steps_)});
  }
  SnapshotIfDue(out);
  RetireDone(out);
  const bool between =
      unit.tiles_stay && unit.step != safe_version_ && unit.step >= spent_from_step_;
  if (unit.tiles_stay && unit.step >= spent_from_step_) out.push_back(RemoveStep{unit.step});
  if (between && snapshot_version_ != unit.step) RemoveTiles(unit.step, out);
}

// The large ones: nobody reads them any more. The others wait for a version that is safe.
void ManagerCore::RemoveTiles(std::int64_t version, Actions& out) const {
  RemoveResults remove;
  for (TileCell& tile : MakeGraph().Tiles(config_.run, version)) {
    const auto values = static_cast<std::uint64_t>(tile.outputs.size() * tile.inputs.size());
    if (values * sizeof(float) >= config_.least_removed_bytes) {
      remove.keys.push_back(std::move(tile.key));
    }
  }
  if (!remove.keys.empty()) out.push_back(std::move(remove));
}

// ---- snapshots
// -----------------------------------------------------------------------------------

void ManagerCore::RetireDone(Actions& out) {
  const std::int64_t keep =
      std::min({safe_version_, snapshot_version_.value_or(INT64_MAX),
                std::max<std::int64_t>(0, committed_steps_ - config_.kept_versions)});
  if (keep <= retired_below_) return;
  retired_below_ = keep;
  out.push_back(RetireThrough{keep - (IsPlanted(Planted::kRetiresTooEarly) ? 0 : 1)});
}

std::int64_t ManagerCore::SnapshotIntervalUs() const {
  const SnapshotPolicy& policy = *config_.snapshots;
  const double lived_s = policy.past_seconds + static_cast<double>(now_us_ - started_us_) * 1e-6;
  const double between_failures_s =
      (kAssumedSecondsBetweenFailures + lived_s) / static_cast<double>(1 + policy.failures);
  const double took_s = static_cast<double>(snapshot_took_us_) * 1e-6;
  const auto young_us = static_cast<std::int64_t>(std::sqrt(2 * took_s * between_failures_s) * 1e6);
  const std::int64_t lived_at_last_us = snapshot_begun_us_ - started_us_;
  return std::max(std::min(young_us, std::max(kFirstSnapshotUs, lived_at_last_us)),
                  kLeastIntervalsOfOne * snapshot_took_us_);
}

void ManagerCore::SnapshotIfDue(Actions& out) {
  if (!config_.snapshots || snapshot_version_ || committed_steps_ == total_steps_) return;
  const std::optional<std::int64_t>& every = config_.snapshots->every_steps;
  const bool due =
      every ? committed_steps_ % *every == 0 : now_us_ - snapshot_begun_us_ >= SnapshotIntervalUs();
  if (due) BeginSnapshot(out);
}

void ManagerCore::BeginSnapshot(Actions& out) {
  snapshot_version_ = committed_steps_;
  snapshot_begun_us_ = now_us_;
  out.push_back(TakeSnapshot{committed_steps_, MakeGraph().Tiles(config_.run, committed_steps_)});
}

void ManagerCore::On(const StopWanted&, std::int64_t, Actions& out) {
  if (std::exchange(stopping_, true) || !snapshot_version_) return;
  out.push_back(
      Say{fmt::format("stopping: the snapshot of step {} is being written", *snapshot_version_)});
}

// The tiles of the newest version stay in the space as no later step is committed any more. One
// under way is finished first: it may be all that can be had in time.
void ManagerCore::SaveToStop(Actions& out) {
  if (snapshot_version_) return;
  const bool save = config_.snapshots && plan_ && initialized_ &&
                    committed_steps_ > std::max(saved_version_, unsaved_version_);
  if (!save) {
    finished_ = true;
    out.push_back(ReadyToStop{committed_steps_, saved_version_});
    return;
  }
  out.push_back(Say{fmt::format(
      "stopping: writing a snapshot of step {} ...; once more to stop at once", committed_steps_)});
  BeginSnapshot(out);
}

void ManagerCore::On(const SnapshotDone& event, std::int64_t, Actions& out) {
  if (snapshot_version_ != event.version) return;
  snapshot_version_.reset();
  snapshot_took_us_ = event.took_us;
  (event.written ? saved_version_ : unsaved_version_) = event.version;
  RetireDone(out);
}

}  // namespace acan
