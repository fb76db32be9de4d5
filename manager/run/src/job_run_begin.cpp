// JobRun: begins from the end of an earlier life, or anew.
#include <algorithm>
#include <string>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/names.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/planted.h"
#include "fmt/format.h"
#include "job_run.h"
#include "nlohmann/json.hpp"
#include "task_overhead.h"
#include "tuplespace/clock.h"

namespace acan {

using tuplespace::MonotonicUs;
using tuplespace::Pattern;

namespace {

// How often a core that plans for long contacts the broker, and extends the lead.
constexpr std::int64_t kBesideUs = 200'000;

}  // namespace

// A new run that has not begun leaves nothing to resume from, and the folder may have an earlier
// run, which it must not continue. But another manager that has led since may have begun the run;
// then this one resumes it. And a standby manager that takes over from a new run that had not begun
// begins it as the other one would have.
void JobRun::ChooseWhatToBegin() {
  const std::vector<std::string>& runs = takeover_.earlier_runs().names();
  if (found_) {
    if (resumes_ || !AnotherHasBegun()) return;
    context_.Log("another manager has begun the run meanwhile: resuming it");
    resumes_ = true;
    return;
  }
  found_.emplace(FoundAtFirst{runs, {}, files_.BegunAt()});
  const auto waits = [this](const std::string& run) {
    const auto state = KeptState::Read(context_.client, context_.job_id, run);
    return state && !state->begun;
  };
  if (!options_.standby || std::ranges::none_of(runs, waits)) return;
  context_.Log("the manager before this one had not begun its run: beginning it");
  resumes_ = false;
  files_.NoteReceipt(files_.ReceiptText());
  beginning_.OpenInitialWeights();
}

bool JobRun::AnotherHasBegun() {
  if (files_.BegunAt() != found_->files_begun) return true;
  return std::ranges::any_of(takeover_.earlier_runs().names(), [this](const std::string& run) {
    if (std::ranges::find(found_->runs, run) != found_->runs.end()) return false;
    const auto state = KeptState::Read(context_.client, context_.job_id, run);
    return state && state->begun;
  });
}

std::optional<Receipt> JobRun::Begin() {
  const bool leads_first = !found_;
  ChooseWhatToBegin();
  const double overhead_us = MeasureTaskOverheadUs(context_, takeover_.leadership());
  const BarredSnapshots barred = audits_.FindQuarantined(
      files_.snapshots(), resumes_ ? files_.notes().EarlierQuarantined() : AuditTrail::Handlers());
  if (resumes_) {
    beginning_.Find(files_.snapshots(), takeover_.earlier_runs().names(), barred);
  } else {
    beginning_.BeginAfter(barred.in_doubt);
  }
  statistics_.GoOnFrom(beginning_.past());
  for (const ResultConflict& conflict : beginning_.past().conflicts) {
    notices_.AddConflict(conflict);
  }
  if (resumes_) {
    for (const ResultConflict& conflict : files_.notes().EarlierConflicts())
      notices_.AddConflict(conflict);
  }
  takeover_.leadership().Confirm();
  if (leads_first && !resumes_) NoteReceiptsInSpace();
  if (auto done = FinishedBefore()) return done;
  if (resumes_ && !beginning_.GoesOn()) {
    if (auto done = StartOver()) return done;
  }
  for (const std::string& warning : context_.data.warnings) {
    context_.Log("warning: " + warning);
  }
  if (resumes_) BeginOutputs();
  receipt_.final_train_loss = beginning_.past().train_loss;
  ManagerConfig config = MakeConfig(overhead_us);
  audits_.Begin(beginning_.past());
  // For a successor of this manager, before there are weights from which it could continue.
  KeepState(beginning_.past().version);
  driver_.Begin(std::move(config));
  return std::nullopt;
}

// The initial weights of a job that is done may be gone, so they are opened only now. That may take
// long, so whatever may have changed meanwhile is checked again.
std::optional<Receipt> JobRun::StartOver() {
  beginning_.OpenInitialWeights();
  takeover_.leadership().Confirm();
  if (auto done = FinishedBefore()) return done;
  context_.Log("nothing is left of an earlier run: starting over");
  return std::nullopt;
}

// What an earlier run left in the folder and in the space is removed here.
void JobRun::BeginOutputs() {
  begun_ = true;
  BeginFiles();
  context_.client.RetireAll(Pattern::Of(DoneKey(context_.job_id)), false);
  if (!beginning_.GoesOn()) takeover_.earlier_runs().RemoveAll();
}

// A new run that never has anything to do, because its handlers are too small or nobody starts one,
// must not have destroyed an earlier run. It may wait for its first plan for long, so whatever may
// have changed since Begin is checked again.
void JobRun::BeginNewRun() {
  takeover_.leadership().Confirm();
  if (context_.HasFolder() && !takeover_.folder().lock()) {
    throw RunLost{"the output folder was given up without a broker"};
  }
  if (files_.NewReceipt()) throw RunLost{"another manager has finished the job"};
  BeginOutputs();
  space_.kept_state().MakeDue();
  KeepState(0);
}

void JobRun::NoteReceiptsInSpace() {
  for (const auto& found : context_.client.ListAll(Pattern::Of(DoneKey(context_.job_id)))) {
    found_->done.emplace_back(found.payload.text());
  }
}

// The receipt, if the job was finished by the manager for which this one stood by, by one that led
// meanwhile, or by an earlier life that was killed after its last message and before its end.
std::optional<Receipt> JobRun::FinishedBefore() {
  std::optional<Receipt> done;
  const Pattern receipt = Pattern::Of(DoneKey(context_.job_id));
  for (const tuplespace::FoundTuple& found : context_.client.ListAll(receipt)) {
    const std::string text(found.payload.text()), where = found.key.ToString();
    if (std::ranges::find(found_->done, text) != found_->done.end()) continue;
    try {
      if (auto its = context_.ReceiptOfThisJob(ParseJsonOrDiscard(text), where)) {
        done = std::move(its);
        continue;
      }
      context_.Log(
          fmt::format("the tuple {} has the receipt of another job; this job is not done", where));
    } catch (const Error& error) {
      // Anybody who may write the job's tuples can put anything there.
      context_.Log(fmt::format("a tuple has no receipt that can be read, and does not count: {}",
                               error.what()));
    }
  }
  // The file is checked last, at the moment when this manager begins to change files.
  if (auto written = files_.NewReceipt()) done = std::move(written);
  if (!done || IsPlanted(ManagerBug::kIgnoresFinishedRun)) return std::nullopt;
  context_.Log("the job is done already");
  const bool kept = done->not_finite && done->not_finite->kept_version;
  if (files_.snapshots() != nullptr && !kept) files_.snapshots()->RemoveAll();
  takeover_.earlier_runs().RemoveAll();
  if (!takeover_.GiveUp()) throw RunLost{"the lead ended before all was removed"};
  return done;
}

void JobRun::BeginFiles() {
  files_.Begin({.goes_on = beginning_.GoesOn(),
                .version = beginning_.past().version,
                .metrics = beginning_.TakeMetrics(),
                .is_new = !resumes_},
               takeover_.leadership(),
               [this](tuplespace::RequestBody body) { space_.Submit(std::move(body)); });
  const MetricsLog* metrics = files_.metrics();
  if (metrics == nullptr) return;
  if (const auto& first = metrics->first_not_finite()) {
    divergence_.OnEarlier(*first);
    statistics_.OnNotFinite(first->step);
  }
}

ManagerConfig JobRun::MakeConfig(double overhead_us) {
  const Job& job = context_.job;
  const RunState& past = beginning_.past();
  const auto quarantined = static_cast<int>(audits_.quarantined().size());
  ManagerConfig config;
  config.model = context_.model;
  config.training = job.training;
  config.limits = job.tasks;
  config.run = context_.run;
  config.train_samples = context_.data.train_samples();
  config.test_samples = context_.data.test_samples();
  config.counted_rows = [this](const PutPassData& pass) { return space_.CountedRows(pass); };
  config.load_weights = beginning_.weights() != nullptr;
  config.first_version = past.version;
  config.knows_links = options_.knows_links;
  config.expected_handlers = std::max(0, options_.expected_handlers - quarantined);
  config.fixed_handlers = options_.fixed_handlers;
  config.machine = options_.machine;
  config.overhead_us = overhead_us;
  config.least_removed_bytes = options_.least_removed_bytes;
  config.kept_versions = divergence_.kept_versions();
  const bool writes = files_.snapshots() != nullptr && !divergence_.IsSought();
  if (writes && job.snapshots.every_steps.value_or(1) > 0) {
    config.snapshots = SnapshotPolicy{job.snapshots.every_steps, past.seconds, past.losses,
                                      beginning_.saved_version()};
  }
  for (const auto& [id, why] : audits_.quarantined()) config.quarantined.insert(id);
  config.audit_secret = tuplespace::RandomNumber();
  config.go_on = [this, next_us = MonotonicUs()]() mutable {
    if (MonotonicUs() < next_us) return;
    context_.client.Poll(std::chrono::microseconds(0));
    takeover_.leadership().Keep();
    next_us = MonotonicUs() + kBesideUs;
  };
  return config;
}

}  // namespace acan
