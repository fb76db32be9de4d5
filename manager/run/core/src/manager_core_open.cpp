// ManagerCore: opens the next unit and makes its tasks.
#include <algorithm>

#include "acan/core/schedule.h"
#include "acan/manager/handler_network.h"
#include "acan/manager/manager_core.h"

namespace acan {
namespace {

// A snapshot prevents its tiles from being retired, so the space would fill up.
constexpr std::int64_t kMaxStepsBeyondSnapshot = 16;
constexpr std::int64_t kEvaluationRows = 1024;  // approximate samples of the test set in one unit

}  // namespace

bool ManagerCore::OpenNextUnit(ManagerActions& out) {
  Unit unit;
  unit.id = units_.next_id();
  const bool is_far_ahead =
      snapshots_.version() && steps_.next > *snapshots_.version() + kMaxStepsBeyondSnapshot;
  if (weights_ == Weights::kNone) {
    OpenInitialize(unit, out);
  } else if (IsEvaluated(steps_.next) && !evaluation_.IsOpened()) {
    OpenEvaluate(unit, out);
  } else if (steps_.next < steps_.total && !is_far_ahead) {
    OpenTrain(unit, out);
  } else {
    return false;
  }
  policy_->MarkChunks(unit.to_put);
  // An audit needs the inputs of its task for as long as it may request a vote.
  if (!trust_.audits() && unit.step >= versions_.spent_from) {
    unit.spent.emplace(unit.to_put, config_.least_removed_bytes);
    if (unit.spent->empty()) unit.spent.reset();
  }
  units_.Add(std::move(unit));
  return true;
}

// The last version is always evaluated, because the receipt has its accuracy.
bool ManagerCore::IsEvaluated(std::int64_t version) const {
  return version == steps_.total || (version > 0 && version % steps_.evaluate_every == 0);
}

void ManagerCore::OpenInitialize(Unit& unit, ManagerActions& out) {
  weights_ = Weights::kOpened;
  unit.kind = Unit::Kind::kInitialize;
  if (config_.load_weights) {
    unit.loads_weights = true;
    out.push_back(
        LoadWeights{cut_.generation(), config_.first_version, cut_.Tiles(config_.first_version)});
  } else {
    unit.to_put = cut_.Tasks().Initialize(config_.run);
    cut_.named().NameForTiles(&unit.to_put);
  }
}

std::int64_t ManagerCore::FirstSampleOf(std::int64_t step) const {
  return step % steps_.per_epoch * config_.training.batch;
}

std::int64_t ManagerCore::RowsOf(std::int64_t step) const {
  return std::min(config_.training.batch, config_.train_samples - FirstSampleOf(step));
}

void ManagerCore::OpenTrain(Unit& unit, ManagerActions& out) {
  evaluation_.OnStepOpened();
  const std::int64_t epoch = steps_.next / steps_.per_epoch;
  const std::int64_t first = FirstSampleOf(steps_.next);
  unit.kind = Unit::Kind::kTrain;
  unit.step = steps_.next++;
  Pass pass;
  pass.job = config_.run;
  pass.step = unit.step;
  pass.rows = RowsOf(unit.step);
  pass.optimizer = OptimizerScalarsAt(config_.training, unit.step, steps_.total);
  Training without_decay = config_.training;
  without_decay.weight_decay = 0;
  pass.optimizer_without_decay = OptimizerScalarsAt(without_decay, unit.step, steps_.total);
  pass.timed = policy_->timed();
  out.push_back(WithCounted({pass, first, false, epoch}, &pass));
  const PassTasks tasks = cut_.Tasks();
  unit.to_put = cut_.TasksOfStep(pass);
  cut_.named().NameForStep(&unit.to_put);
  if (auto note = cut_.TakeNote()) out.push_back(Say{std::move(*note)});
  const bool is_last = steps_.next == steps_.total;
  if (!is_last && RowsOf(steps_.next) == pass.rows) cut_.named().NameDataAhead(&unit.to_put);
  ReadLosses read{unit.id, cut_.generation(), {}};
  for (const LossCell& loss : tasks.Losses(pass)) read.keys.push_back(loss.key);
  if (auto norm = tasks.GradientNorm(pass)) read.keys.push_back(std::move(*norm));
  LetBeResident(unit, {read.keys.begin(), read.keys.end()});
  unit.passes.push_back(std::move(pass));
  out.push_back(std::move(read));
}

// Adds the number of rows that count, by which the tasks of `pass` divide the loss.
PutPassData ManagerCore::WithCounted(PutPassData data, Pass* pass) const {
  if (config_.counted_rows) data.pass.counted_rows = config_.counted_rows(data);
  pass->counted_rows = data.pass.counted_rows;
  return data;
}

// Large results may stay on devices with their own memory, and with handlers whose bytes would
// cross a link. Tiles may stay, except those of the last version. Results that only tasks of the
// unit read may stay if there is only one handler, or if this spares a link. If there is only one
// handler, and its memory is its own, small results of a step may stay if a large one does, and
// small tiles if a large tile does, because a version of which no tile stays is safe. Results that
// the manager itself reads (`read`) do not stay, because the step would wait for their maker.
void ManagerCore::LetBeResident(Unit& unit, const std::set<tuplespace::Key>& read) const {
  const std::map<std::string, Capacity>& handlers = cut_.handlers();
  const auto any_of = [&handlers](auto&& predicate) {
    return std::any_of(handlers.begin(), handlers.end(),
                       [&](const auto& handler) { return predicate(handler.second); });
  };
  const bool any = any_of([](const Capacity& capacity) { return capacity.KeepsResults(); });
  // None may stay if the job has audits, which compare bytes.
  const bool kept = config_.kept_versions > 0;
  if (!any || trust_.audits() || kept || config_.limits.resident_steps <= 1) return;
  if (!safe_.MayStay(unit.step)) return;
  const bool travels = any_of([](const Capacity& capacity) { return capacity.bytes_travel; });
  const bool tiles_resident = unit.step + 1 != steps_.total;
  const bool others_resident = handlers.size() == 1 || travels;
  const bool alone = handlers.size() == 1 && !travels;
  const auto let_stay = [&](std::uint64_t least_tile, std::uint64_t least) {
    bool any_stays = false;
    for (PlannedTask& task : unit.to_put) {
      for (Output& output : task.task.outputs) {
        const bool may =
            output.view.bytes() >= (output.keep ? least_tile : least) && !read.contains(output.key);
        output.may_be_resident = may && (output.keep ? tiles_resident : others_resident);
        unit.tiles_resident = unit.tiles_resident || (output.keep && output.may_be_resident);
        any_stays = any_stays || output.may_be_resident;
      }
    }
    return any_stays;
  };
  const std::uint64_t least_tile = config_.least_removed_bytes;
  const std::uint64_t least = travels ? LeastKeptOverLinks(least_tile) : least_tile;
  // The step is lost with its handler anyway in this case, and so is its version if a tile stays.
  // Bytes that leave a device only to return cost more, both times, than the messages about those
  // that stay.
  if (let_stay(least_tile, least) && alone) let_stay(unit.tiles_resident ? 1 : least_tile, 1);
}

void ManagerCore::OpenEvaluate(Unit& unit, ManagerActions& out) {
  unit.step = steps_.next;
  const PassTasks tasks = cut_.Tasks();
  const std::int64_t batch = cut_.plan()->batch;
  ReadLosses read{unit.id, cut_.generation(), {}};
  std::int64_t next = evaluation_.next_sample();
  const std::int64_t end = std::min(config_.test_samples, next + std::max(batch, kEvaluationRows));
  while (next < end) {
    Pass pass;
    pass.job = config_.run;
    pass.step = unit.step;
    pass.batch_id = next / batch + 1;
    pass.rows = std::min(batch, config_.test_samples - next);
    pass.train = false;
    pass.timed = policy_->timed();
    out.push_back(WithCounted({pass, next, true, 0}, &pass));
    std::vector<PlannedTask> of_pass = tasks.Tasks(pass);
    cut_.named().NameForEvaluation(&of_pass);
    AppendTo(&unit.to_put, std::move(of_pass));
    for (const LossCell& loss : tasks.Losses(pass)) read.keys.push_back(loss.key);
    unit.passes.push_back(pass);
    next += pass.rows;
  }
  LetBeResident(unit, {read.keys.begin(), read.keys.end()});
  out.push_back(std::move(read));
  const bool last = evaluation_.OpenedUntil(next);
  unit.kind = last ? Unit::Kind::kEvaluateLast : Unit::Kind::kEvaluate;
}

}  // namespace acan
