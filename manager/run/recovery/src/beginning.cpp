#include "acan/manager/beginning.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/finished_run.h"
#include "acan/manager/initial_weights.h"
#include "acan/manager/kept_metrics.h"
#include "acan/manager/kept_state.h"
#include "acan/manager/output_names.h"
#include "acan/manager/text_file.h"
#include "acan/manager/training_id.h"
#include "acan/manager/tuple_names.h"
#include "acan/manager/unreadable.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

using tuplespace::FieldPattern;

constexpr std::chrono::seconds kEarlierTilePatience(3);
constexpr std::int64_t kMaxStepsAhead = 3;  // the maximum number of uncommitted steps in the space

std::optional<double> LossIn(const std::string& lines) {
  const std::size_t begin = lines.rfind('\n', lines.size() - 2) + 1;  // npos + 1 is 0
  const auto json = ParseJsonOrDiscard(lines.substr(begin));
  if (!json.is_object() || !json.contains("loss") || !json["loss"].is_number()) return {};
  return json["loss"].get<double>();
}

// The job of the run whose files the folder has; nullopt if there is none.
std::optional<Job> JobInFolder(const RunContext& context) {
  if (!context.HasFolder()) return std::nullopt;
  const std::string path = context.OutPath(kJobName);
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return std::nullopt;
  try {
    const auto json = ParseJsonOrDiscard(ReadTextFile(path, kMaxJobBytes, "the job of a run"));
    return JobFromJson(json, path);
  } catch (const Unreadable&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Whether metrics.jsonl is of this job's training: the folder may belong to another run.
bool FileMetricsAreOf(const RunContext& context) {
  const std::optional<Job> job = JobInFolder(context);
  return job && TrainingId(*job, context.data.train_sha256(), context.data.test_sha256()) ==
                    context.job_id;
}

// Why a manager does not begin although there are snapshots of other trainings. `in_space`: it has
// the weights of its own training there.
Error OthersSnapshots(const RunContext& context, bool in_space) {
  const std::optional<Job> theirs = JobInFolder(context);
  const std::string difference = theirs ? FirstDifference(context.job, *theirs) : "";
  const std::string file = context.OutPath(kJobName);
  std::string advice = ": name the job that wrote them";
  if (!difference.empty()) {
    advice = fmt::format(", and {} as in {}{}", difference, file, advice);
  } else if (theirs) {
    advice = fmt::format(
        ", although the job is that of {}: if the training or test data have changed since, "
        "restore them",
        file);
  }
  return UsageError(fmt::format("none of the snapshots in {} can be used (see above){}, or {}",
                                context.OutPath(kSnapshotsName), advice,
                                in_space
                                    ? "continue from the weights in the space with another --out"
                                    : "start over without --resume"));
}

}  // namespace

void Beginning::OpenInitialWeights() {
  if (context_.job.initial_weights.empty()) return;
  try {
    file_ = std::make_shared<const ModelReader>(context_.job.initial_weights, *context_.model);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("model.initial_weights: {}", error.what()));
  }
  // The hash may be days old: a standby manager waited, or earlier lives trained.
  RequireWeightsOf(context_.job, *file_, [this] {
    if (!leadership_.leads()) return;
    context_.client.Poll(std::chrono::microseconds(0));
    leadership_.Keep();
  });
  weights_ = std::make_unique<FileTiles>(*file_);
  source_ = Source::kInitialWeights;
}

void Beginning::GoOnFrom(std::unique_ptr<TileSource> weights) {
  weights_ = std::move(weights);
  source_ = Source::kEarlierLife;
}

// What the runs before this one had committed. The file may have the lines of months.
void Beginning::CountStepsInFile() {
  const std::string path = context_.OutPath(kMetricsName);
  leadership_.WorkBeside(
      fmt::format("{} is still being read", path),
      [&](const std::function<void()>& go_on) { in_file_ = CountSteps(path, go_on); });
}

// Steps whose metrics are neither in the file nor in the space were not committed, and are cheap to
// repeat. But if the weights are further ahead than a manager ever is of its commits, the metrics
// were lost, and the weights are worth more.
void Beginning::FindInSpace(const std::string& run) {
  leadership_.Keep();
  tuplespace::Client& client = context_.client;
  client.RetireAll(TasksOf(run, FieldPattern::Any()), false);
  const auto keep = [this] { leadership_.Keep(); };
  MetricsLines kept = KeptMetrics::Read(client, context_.job_id, run, keep);
  std::int64_t newest = kept.empty() ? 0 : kept.rbegin()->first + 1;
  if (!context_.HasFolder()) newest = INT64_MAX;
  newest = std::max(newest, in_file_.steps);
  TileMover mover(
      client, [this] { leadership_.Keep(); },
      [this](const std::string& line) { context_.Log(line); });
  const TrainedModel& model = *context_.model;
  const int states = context_.OptimizerStates();
  auto whole = mover.FindWhole(run, model, states, std::min(newest, limits_.steps));
  if (!whole) {
    auto ahead = mover.FindWhole(run, model, states, limits_.steps);
    if (ahead && ahead->version - kMaxStepsAhead > newest) whole.emplace(std::move(*ahead));
  }
  if (!whole || whole->version <= past_.version) return;
  past_.version = whole->version;
  // The loss of an earlier step must not stand for that of the last one, which may be no number.
  past_.train_loss.reset();
  if (in_file_.steps == past_.version) past_.train_loss = in_file_.last_loss;
  if (const auto last = kept.find(past_.version - 1); last != kept.end()) {
    past_.train_loss = LossIn(last->second);
  }
  metrics_.carried = std::move(kept);
  GoOnFrom(std::make_unique<SpaceTiles>(std::move(mover), std::move(whole->tiles),
                                        kEarlierTilePatience));
  found_in_ = "the weights in the space";
}

// The counts and the conflicts of a run in the space hold whether or not its weights are there and
// can be used. Returns how many steps it had done.
std::int64_t Beginning::CountInSpace(const std::string& run) {
  leadership_.Keep();  // there may be hundreds of runs if the broker was lost repeatedly
  const auto state = KeptState::Read(context_.client, context_.job_id, run);
  if (!state || !state->begun) return 0;
  AddToPast(*state);
  return state->version;
}

// A state in the space and a snapshot are of the same run or of lives that followed each other, so
// the larger count includes the smaller one.
void Beginning::AddToPast(const RunState& state) {
  past_.tasks_done = std::max(past_.tasks_done, state.tasks_done);
  past_.seconds = std::max(past_.seconds, state.seconds);
  past_.failures = std::max(past_.failures, state.failures);
  past_.losses = std::max(past_.losses, state.losses);
  past_.tasks_reissued = std::max(past_.tasks_reissued, state.tasks_reissued);
  past_.tasks_duplicated = std::max(past_.tasks_duplicated, state.tasks_duplicated);
  if (state.handlers.tasks() > past_.handlers.tasks()) past_.handlers = state.handlers;
  past_.conflicts.insert(past_.conflicts.end(), state.conflicts.begin(), state.conflicts.end());
}

void Beginning::FindInSnapshots(const SnapshotFolder& snapshots, const BarredSnapshots& barred,
                                bool* others) {
  if (limits_.finite_through) snapshots.RemoveNewerThan(*limits_.finite_through);
  const auto say = [this](const std::string& line) { context_.Log(line); };
  const auto go_on = [this] {
    context_.client.Poll(std::chrono::milliseconds(0));
    leadership_.Keep();
  };
  auto found = snapshots.Newest(say, others, go_on, barred);
  if (!found) return;
  past_ = found->state;
  saved_version_ = past_.version;
  file_ = std::move(found->file);
  GoOnFrom(std::make_unique<FileTiles>(*file_));
  found_in_ = "snapshot " + found->path;
}

// Beginning the files removes the folder's content, unless a snapshot there is this training's own:
// a wrong job, or a wrong folder, must not destroy the run of another job. Damaged snapshots need
// no protection. `others`: there are intact snapshots of other trainings.
void Beginning::RequireNoOthersRun(bool others) const {
  const bool standby = context_.settings.standby;
  // It has warned of them when it began to stand by. Perhaps nobody is there now to choose another
  // folder, and the job must go on.
  if (standby && GoesOn()) return;
  if (others) throw OthersSnapshots(context_, GoesOn());
  // A standby manager may see the finished run before the one that its leader begins.
  if (standby || !context_.HasFolder()) return;
  RequireNoOtherFinishedRun(context_.settings.out_dir, context_.job, context_.job_id);
}

void Beginning::Find(const SnapshotFolder* snapshots, const std::vector<std::string>& earlier_runs,
                     BarredSnapshots barred) {
  bool others = false;
  barred.newest = limits_.finite_through;
  if (snapshots != nullptr) FindInSnapshots(*snapshots, barred, &others);
  const bool has_snapshot = GoesOn();
  metrics_.keep_file = has_snapshot || FileMetricsAreOf(context_);
  std::int64_t reached = 0;
  for (const std::string& run : earlier_runs) reached = std::max(reached, CountInSpace(run));
  if (limits_.counted) AddToPast(*limits_.counted);
  // It is unknown who contributed to the weights in the space, which matters with audits, and
  // whether they are good if the run diverged.
  const bool audited = context_.job.tasks.audit > 0;
  if (!audited && !limits_.finite_through) {
    if (metrics_.keep_file && !earlier_runs.empty()) CountStepsInFile();
    for (const std::string& run : earlier_runs) FindInSpace(run);
    if (past_.version > saved_version_) past_.unnamed_contributors = true;
  }
  if (audited && IsFirstLife() && reached > past_.version) {
    context_.Log(fmt::format(
        "the run had reached step {}; with audits, it continues only from a snapshot, because the "
        "space does not say whose results its weights contain",
        reached));
  }
  if (!has_snapshot && IsFirstLife()) RequireNoOthersRun(others);
  if (GoesOn()) {
    context_.Log(fmt::format("continuing from {}, after step {}", found_in_, past_.version));
  }
  past_.failures = std::max<std::int64_t>(past_.failures + 1, limits_.earlier_lives);
  past_.losses = std::max<std::int64_t>(past_.losses + 1, limits_.earlier_lives);
  BeginAfter(barred.in_doubt);
}

void Beginning::BeginAfter(const DoubtfulKeys& in_doubt) {
  for (const auto& [key, failures] : in_doubt) {
    past_.failures = std::max(past_.failures, failures + 1);
  }
}

}  // namespace acan
