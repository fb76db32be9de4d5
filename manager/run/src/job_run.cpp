#include "job_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <set>
#include <string_view>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/long_wait.h"
#include "acan/manager/contributors.h"
#include "acan/manager/expected_handlers.h"
#include "acan/manager/planted.h"
#include "fmt/format.h"
#include "payload_room.h"
#include "tuplespace/clock.h"

namespace acan {
namespace {

using tuplespace::MonotonicUs;

tuplespace::ClientOptions ClientOf(const ManagerOptions& options) {
  return {.endpoint = options.endpoint,
          .name = "manager of " + options.source,
          .id = {},
          .access = options.access,
          .context = options.context,
          .direct = options.direct};
}

// A manager that has joined before does not believe a refusal of its key, which is not
// authenticated (ClientSession::LinkRefused).
tuplespace::ClientOptions ClientOfLife(const ManagerOptions& options, int earlier_lives) {
  tuplespace::ClientOptions client = ClientOf(options);
  if (earlier_lives > 0) client.refusal_patience_us = tuplespace::kForeverUs;
  return client;
}

RunSettings SettingsOf(const ManagerOptions& options) {
  return {.endpoint = options.endpoint,
          .out_dir = options.out_dir,
          .source = options.source,
          .resume = options.resume,
          .standby = options.standby,
          .log = options.log};
}

std::optional<std::int64_t> FiniteThrough(const std::optional<NotFiniteFound>& diverged) {
  if (!diverged) return std::nullopt;
  return diverged->finite_through;
}

// False for what a run does that has no plan.
bool IsWork(const ManagerAction& action) {
  return !std::holds_alternative<Say>(action) && !std::holds_alternative<GiveUp>(action) &&
         !std::holds_alternative<ReadyToStop>(action);
}

}  // namespace

JobRun::JobRun(const ManagerOptions& options, const Job& job,
               std::shared_ptr<const TrainedModel> model, const Data& data, EarlierLives earlier)
    : options_(options),
      context_(SettingsOf(options), ClientOfLife(options, earlier.count), job, std::move(model),
               data),
      stop_(context_.client, options.alive),
      takeover_(context_, stop_, std::move(earlier.folder), std::move(earlier.runs)),
      beginning_(context_, takeover_.leadership(),
                 {earlier.count, FiniteThrough(earlier.diverged), std::move(earlier.counted),
                  context_.Steps()}),
      audits_(context_, options.audit_log, std::move(earlier.quarantined),
              [this](const AuditTrail::Handlers& handlers) {
                files_.notes().KeepQuarantined(handlers);
              }),
      files_(context_, takeover_.folder(), ClientOf(options), [this] { audits_.SyncFlushed(); }),
      notices_(
          context_, [this](ManagerEvent event) { driver_.Post(std::move(event)); },
          [this](const ResultConflict& conflict) {
            files_.notes().KeepConflict(conflict);
            space_.kept_state().MakeDue();
          },
          std::move(earlier.conflicts)),
      statistics_(context_, [this](ManagerEvent event) { PostSeen(std::move(event)); }),
      space_(context_, takeover_.leadership(), statistics_, audits_,
             [this](ManagerEvent event) { driver_.Post(std::move(event)); }),
      divergence_(context_, earlier.diverged),
      found_(std::move(earlier.found)),
      resumes_(options.resume) {
  files_.NoteReceipt(std::move(earlier.receipt));
}

std::optional<Receipt> JobRun::Run() {
  // Problems with files should be reported before waiting for anything.
  audits_.CheckWritable();
  if (!options_.resume) beginning_.OpenInitialWeights();
  try {
    context_.client.OnNotice([this](tuplespace::Notice&& notice) {
      space_.OnNotice(notice);
      notices_.On(std::move(notice), driver_.audits(), driver_.MayTakeBackSpares());
    });
    takeover_.leadership().Connect();
    if (!options_.resume && beginning_.IsFirstLife()) files_.NoteReceipt(files_.ReceiptText());
    takeover_.Take([this] { return options_.resume && MakeRoomForLock(); });
    statistics_.Begin(MonotonicUs());  // not before: another manager's life has its own seconds
    audits_.Open(takeover_.leadership());
    if (auto done = Begin()) return done;
    stop_.OnTrainingBegun();
    while (!final_tiles_) Turn();
    receipt_.seconds = SecondsSoFar();
    return Finish();
  } catch (const Stopped&) {
    // These records are of steps that the next life repeats, and it may have begun already.
    audits_.DropUnflushed();
    SayStopped();
    // As after a kill, the next manager can continue from them.
    if (!HasUnsavedSteps()) takeover_.LeaveToOthers();
    EndSnapshot();
    return std::nullopt;
  } catch (const RunLost&) {
    audits_.DropUnflushed();
    throw;
  } catch (const HandlersWrong&) {
    takeover_.earlier_runs().SayGoodbye();
    throw;
  } catch (const tuplespace::SpaceError& error) {
    if (!takeover_.leadership().leads()) audits_.DropUnflushed();
    // The broker would refuse it to the next manager, too.
    takeover_.earlier_runs().SayGoodbye();
    const bool too_large = error.code() == tuplespace::ErrorCode::kTooLarge;
    throw tuplespace::SpaceError(error.code(),
                                 error.what() + (too_large ? HintFor(error.what()) : ""));
  } catch (const JobFailed& failed) {
    if (!takeover_.leadership().leads()) audits_.DropUnflushed();
    takeover_.earlier_runs().SayGoodbye();
    throw JobFailed(failed.what() + HintFor(failed.what()));
  } catch (const NotFiniteFound&) {
    if (!takeover_.leadership().leads()) audits_.DropUnflushed();
    takeover_.earlier_runs().SayGoodbye();
    throw;
  } catch (...) {
    // A limit of this manager's environment, such as a full disk or too few threads. What the next
    // manager can continue from stays, as if this one had been killed. If the folder is gone, the
    // next life makes it again.
    if (!takeover_.leadership().leads()) audits_.DropUnflushed();
    files_.CheckNotRemoved();
    throw;
  }
}

std::string JobRun::EnoughPayloads() const {
  const Plan* plan = driver_.plan();
  return plan != nullptr ? PayloadsText(context_, *plan) : "";
}

// How to give the broker enough room, if it can never hold what this run or a handler has put.
std::string JobRun::HintFor(std::string_view error) const {
  if (error.find("limits.payload_bytes") == std::string_view::npos) return "";
  const std::string enough = EnoughPayloads();
  return enough.empty() ? "" : "; " + enough;
}

double JobRun::SecondsSoFar() const {
  return beginning_.past().seconds + statistics_.SecondsSinceBegin();
}

// ---- the loop ----------------------------------------------------------------------------------

void JobRun::Turn() {
  Leadership& leadership = takeover_.leadership();
  leadership.Keep();
  if (leadership.leads() && stop_.AsksCore()) driver_.Post(StopWanted{});
  if (!leadership.leads()) return leadership.Await();
  statistics_.LookIfDue();
  driver_.PostTickIfDue(MonotonicUs());
  files_.CheckNotRemovedIfDue(MonotonicUs());
  TakeSnapshotDone();
  StepAll();
  notices_.FollowParked(driver_.audits());
  const std::int64_t wait_us = std::clamp<std::int64_t>(
      driver_.core().NextDeadlineUs() - MonotonicUs(), 0, Leadership::kPollUs);
  if (!final_tiles_) context_.client.Poll(std::chrono::microseconds(wait_us));
  StepAll();
  NoteTuning();
}

void JobRun::PostSeen(ManagerEvent event) {
  if (auto* seen = std::get_if<HandlersSeen>(&event); seen != nullptr && options_.coming_handlers) {
    seen->missing =
        MissingHandlers(options_.coming_handlers(), options_.started_handlers, seen->handlers);
  } else if (auto* tasks = std::get_if<RunTasksSeen>(&event)) {
    tasks->puts_under_way = space_.puts_under_way();
  }
  driver_.Post(std::move(event));
}

void JobRun::StepAll() {
  while (takeover_.leadership().leads() && !final_tiles_) {
    std::optional<ManagerActions> actions = driver_.Step(MonotonicUs());
    if (!actions) return;
    Apply(std::move(*actions));
  }
}

void JobRun::Apply(ManagerActions actions) {
  for (ManagerAction& action : actions) {
    if (final_tiles_) return;
    if (!begun_ && IsWork(action)) BeginNewRun();
    std::visit([this](auto& a) { Do(a); }, action);
  }
}

void JobRun::Do(const LoadWeights& action) {
  try {
    space_
        .Mover([this, wait = LongWait(MonotonicUs())]() mutable {
          statistics_.LookIfDue();
          if (wait.Due(MonotonicUs())) MakeRoom();
        })
        .Load(*beginning_.weights(), action.tiles);
  } catch (const TileGone& gone) {
    throw RunLost{fmt::format("{} of an earlier run is gone", gone.key.ToString())};
  }
  takeover_.earlier_runs().RemoveAll();
  driver_.Post(WeightsReady{action.generation});
}

void JobRun::Do(const MoveTiles& action) {
  notices_.OnGoingBack();
  space_.GoBack(action);
  notices_.OnWentBack(driver_.Waits<ResultsLost>());
  driver_.Post(WeightsReady{action.generation});
}

void JobRun::Do(const Quarantine& action) {
  notices_.OnVerdict();  // more verdicts arrive while the quarantine is put
  std::set<std::string> present;
  for (const auto& [id, capacity] : driver_.core().handlers()) present.insert(id);
  audits_.Quarantine(action.verdict, statistics_.handlers().by_id(), present);
}

void JobRun::Do(const Stalled& action) {
  space_.SayStalled(action);
  MakeRoom();
}

void JobRun::MakeRoom() {
  const LackOfRoom lack = statistics_.lack_of_room();
  if (lack.payloads) {
    files_.KeepOnlyNewestMetrics();
    if (const std::string enough = EnoughPayloads(); !enough.empty()) context_.Log(enough);
  }
  if (lack.tuples) {
    context_.Log(
        "the broker has no room for more tuples: its limit may be too small for this job "
        "(acan broker --tuples)");
  }
}

void JobRun::Do(const GiveUp& action) {
  throw JobFailed(action.text);
}

// ---- snapshots ---------------------------------------------------------------------------------

RunState JobRun::StateAt(std::int64_t version) const {
  const AuditSummary audits = AuditsSoFar();
  RunState state;
  state.version = version;
  state.train_loss = receipt_.final_train_loss;
  state.tasks_done = beginning_.past().tasks_done + space_.tasks_put();
  state.seconds = SecondsSoFar();
  state.failures = beginning_.past().failures;
  state.losses = beginning_.past().losses;
  Contributors contributors;
  contributors.AddAll(audits_.contributors());
  if (const Audits* live = driver_.audits()) contributors.AddAll(live->unconfirmed());
  state.contributors.assign(contributors.names().begin(), contributors.names().end());
  state.unnamed_contributors = audits_.has_unnamed_contributors();
  state.audit_share = audits.share;
  state.audited = context_.job.tasks.audit > 0;
  state.conflicts = notices_.conflicts();
  state.handlers = statistics_.handlers().Totals();
  state.tasks_reissued = static_cast<std::int64_t>(statistics_.progress().reissued);
  state.tasks_duplicated = statistics_.tasks_duplicated();
  state.begun = begun_;
  state.audits_passed = audits.passed;
  state.audits_skipped = audits.skipped;
  return state;
}

std::optional<RunState> JobRun::Counted() const {
  if (!begun_ && !beginning_.GoesOn()) return std::nullopt;
  return StateAt(beginning_.past().version);
}

void JobRun::KeepState(std::int64_t version) {
  const std::int64_t now_us = MonotonicUs();
  if (space_.kept_state().IsDue(now_us)) space_.kept_state().Put(StateAt(version), now_us);
}

void JobRun::Do(TakeSnapshot& action) {
  const bool planted = IsPlanted(ManagerBug::kSnapshotNamesEarlierVersion);
  files_.StartSnapshot(StateAt(action.version - (planted ? 1 : 0)), std::move(action.tiles));
}

void JobRun::Do(const DropSnapshot&) {
  files_.DropSnapshot([this] { takeover_.leadership().PollOnce(); });
}

void JobRun::TakeSnapshotDone() {
  const std::optional<SnapshotWriter::Done> done = files_.TakeSnapshotDone();
  if (!done) return;
  files_.Check();
  if (!done->problem.empty()) {
    context_.Log(fmt::format("the snapshot after step {} was not written: {}", done->version,
                             done->problem));
  }
  if (!done->finite && context_.job.stop_if_not_finite) {
    context_.Log(fmt::format("the weights after {} steps are not finite", done->version));
    const std::int64_t step = done->version - 1;
    throw divergence_.ToSeek(NotFinite::What::kWeights, step, /*finite_through=*/step);
  }
  driver_.Post(SnapshotDone{done->version, done->took_us, done->problem.empty()});
}

// ---- steps -------------------------------------------------------------------------------------

void JobRun::Do(const StepCommitted& action) {
  beginning_.ForgetWeights();
  const Progress& progress = statistics_.OnStep(action, driver_.core().total_steps());
  if (std::isfinite(action.loss) || !context_.job.stop_if_not_finite) {
    receipt_.final_train_loss = action.loss;
  }
  files_.AddStep({action.step, action.epoch, action.loss, action.learning_rate,
                  progress.samples_per_s, progress.handlers,
                  static_cast<std::int64_t>(progress.reissued), action.gradient_norm});
  audits_.Flush();
  LookAtStep(action);
  KeepState(action.step + 1);
  SendProgress(progress);
}

void JobRun::Do(const Evaluated& action) {
  const Progress& progress = statistics_.OnEvaluated(action);
  receipt_.test_loss = action.loss;
  receipt_.test_accuracy = action.accuracy;
  receipt_.test_perplexity = PerplexityOf(*context_.model, action.loss);
  files_.AddEvaluation({action.step, action.epoch, action.loss, action.accuracy});
  SendProgress(progress);
}

void JobRun::SendProgress(const Progress& progress) const {
  if (options_.progress) options_.progress(progress);
}

void JobRun::NoteTuning(bool at_once) {
  const auto tuning =
      statistics_.Tune(driver_.core().policy(), driver_.core().committed_steps(), at_once);
  if (!tuning) return;
  files_.AddTuning(*tuning);
  if (options_.tuning) options_.tuning(*tuning);
}

void JobRun::LookAtStep(const StepCommitted& step) {
  NotFinite found{NotFinite::What::kLoss, step.step, step.learning_rate, std::nullopt};
  if (std::isfinite(step.loss)) {
    if (!divergence_.IsSought()) return;
    const PassTasks tasks(context_.planned, context_.job.training, *driver_.core().plan());
    if (space_.Mover().AreFinite(tasks.Tiles(context_.run, step.step + 1))) {
      return OnFinite(step.step);
    }
    found.what = NotFinite::What::kWeights;
  }
  OnNotFinite(found);
}

void JobRun::OnNotFinite(const NotFinite& found) {
  const bool first = !divergence_.found();
  if (first) statistics_.OnNotFinite(found.step);
  if (const auto text = divergence_.Contradiction(found)) notices_.OnNotRepeated(found.step, *text);
  if (const auto version = divergence_.OnNotFinite(found, driver_.core().total_steps())) {
    KeepVersion(*version, found);
  }
}

// The life keeps versions, writes no snapshots and looks at all weights only to find the last good
// ones. The next life continues from this step. After the last step there is nothing left to do.
void JobRun::OnFinite(std::int64_t step) {
  const auto text = divergence_.OnFinite(step);
  if (!text) return;
  notices_.OnNotRepeated(step, *text);
  if (step + 1 == driver_.core().total_steps()) return;
  KeepState(step + 1);
  throw NotDiverged{{"the run has not diverged"}};
}

// It may be cut in another way than the newest version.
void JobRun::KeepVersion(std::int64_t version, const NotFinite& found) {
  auto whole =
      space_.Mover().FindWhole(context_.run, *context_.model, context_.OptimizerStates(), version);
  if (!whole || whole->version != version) {
    throw divergence_.ToSeek(found.what, found.step, /*finite_through=*/version);
  }
  divergence_.OnKept(version);
  space_.CancelReads();
  final_tiles_ = std::move(whole->tiles);
}

// ---- a stop ------------------------------------------------------------------------------------

// Whether only the space has the last steps. No manager continues from version 0.
bool JobRun::HasUnsavedSteps() const {
  const std::int64_t done = driver_.committed_steps();
  return done > 0 && done > std::max(driver_.core().saved_version(), beginning_.saved_version());
}

// Without the lead it is unknown whether the space still has them. With audits, a manager continues
// only from a snapshot.
bool JobRun::LeftStepsInSpace() const {
  return HasUnsavedSteps() && takeover_.leadership().leads() && context_.job.tasks.audit == 0;
}

std::string JobRun::WhyUnsaved() const {
  if (!context_.client.connected()) return "there is no connection to the broker";
  if (final_tiles_) return "the outputs were not written within the time limit (see --stop-within)";
  if (context_.job.snapshots.every_steps == 0) {
    return "snapshots.every_steps = 0 turns snapshots off";
  }
  if (divergence_.IsSought()) return "while a run looks for its last good weights, it writes none";
  const std::int64_t done = driver_.committed_steps();
  return stop_.SavedOf(done) == StopRequest::Saved::kNotAll
             ? "it could not be written"
             : "it was not written within the time limit (see --stop-within)";
}

void JobRun::SayStopped() const {
  if (!stop_.trains() || !begun_ || files_.snapshots() == nullptr) return;
  const std::int64_t done = driver_.committed_steps();
  if (HasUnsavedSteps()) {
    context_.Log(
        fmt::format("stopped after step {} without a snapshot of it: {}", done, WhyUnsaved()));
  } else {
    context_.Log(fmt::format("stopped after step {}: no work is lost", done));
  }
}

// Waits for the thread of snapshots, which may be at a disk that does not respond. The destructor
// would wait as well, but say nothing.
void JobRun::EndSnapshot() {
  context_.client.SetInterrupt(nullptr);
  files_.DropSnapshot([this] {
    if (options_.alive) options_.alive();
    try {
      context_.client.Poll(std::chrono::microseconds(Leadership::kPollUs));
    } catch (const std::exception&) {  // the reason why the run ends is known already
    } catch (const RunLost&) {
    }
  });
}

}  // namespace acan
