// JobRun: ends the run: writes the outputs, puts the result for other managers, and removes the
// run's tuples.
#include <algorithm>
#include <chrono>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/long_wait.h"
#include "acan/core/names.h"
#include "acan/core/schedule.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/initial_weights.h"
#include "acan/manager/output_names.h"
#include "acan/manager/work_beside.h"
#include "fmt/format.h"
#include "job_run.h"
#include "tuplespace/clock.h"

namespace acan {

std::int64_t JobRun::WholeEpochs(std::int64_t steps) const {
  return steps / StepsPerEpoch(context_.data.train_samples(), context_.job.training.batch);
}

// Repeats `work`, which writes `what`, if the disk was full and older snapshots, which nobody needs
// any more, were removed.
template <class Work>
auto JobRun::WithRoom(const std::string& what, const Work& work) {
  const SnapshotFolder* snapshots = files_.snapshots();
  if (snapshots == nullptr) return work();
  bool room_made = false;
  bool said = false;
  const auto go_on = [this] {
    context_.client.Poll(std::chrono::microseconds(0));
    takeover_.leadership().Keep();
  };
  return acan::WithRoom(*snapshots, go_on, &room_made, [&] {
    if (room_made && !std::exchange(said, true)) {
      context_.Log(
          fmt::format("the disk had no room for {}: older snapshots were removed for it", what));
    }
    return work();
  });
}

bool JobRun::MakeRoomForLock() {
  const SnapshotFolder* snapshots = files_.snapshots();
  const auto go_on = [this] {
    context_.client.Poll(std::chrono::microseconds(0));
    takeover_.leadership().Keep();
  };
  if (snapshots == nullptr || !snapshots->MakeRoom(go_on)) return false;
  context_.Log("the disk had no room for manager.lock: older snapshots were removed for it");
  return true;
}

// Writes the fully trained model. Without a folder there is only its hash.
void JobRun::WriteWeights() {
  const Job& job = context_.job;
  const std::int64_t steps = driver_.core().total_steps();
  const TileMover::Written written = WithRoom(kModelName, [&] {
    TileMover mover = space_.Mover();
    if (!context_.HasFolder()) return mover.HashModel(*context_.model, steps, *final_tiles_);
    return mover.WriteModel(context_.OutPath(kModelName), *context_.model, steps, *final_tiles_,
                            job.stop_if_not_finite);
  });
  WithRoom(kConfigName, [&] { files_.WriteConfig(); });
  receipt_.weights_sha256 = written.weights_sha256;
  receipt_.steps = steps;
  receipt_.epochs = WholeEpochs(receipt_.steps);
  if (written.finite) return;
  NotFinite found{NotFinite::What::kWeights, 0, job.training.learning_rate, std::nullopt};
  if (receipt_.steps > 0) {
    found.step = receipt_.steps - 1;
    found.learning_rate = LearningRateAt(job.training, found.step, receipt_.steps);
  }
  OnNotFinite(found);
}

// Writes the last good weights of a run that diverged.
void JobRun::WriteKept() {
  const std::int64_t version = *divergence_.kept_version();
  const TileMover::Written written =
      space_.Mover().HashModel(*context_.model, version, *final_tiles_);
  if (!written.finite && version > 0) {
    throw divergence_.ToSeek(NotFinite::What::kWeights, version - 1, version - 1);
  }
  if (!written.finite) {
    const std::string where = NotFiniteInitialWeight(context_.job);
    throw JobFailed(fmt::format("the weights with which the run began are not finite{}",
                                where.empty() ? "" : ": model.initial_weights: " + where));
  }
  receipt_.weights_sha256 = written.weights_sha256;
  receipt_.steps = version;
  receipt_.epochs = WholeEpochs(version);
  // These belong to the last evaluated version, and not to these weights.
  receipt_.test_loss.reset();
  receipt_.test_accuracy.reset();
  receipt_.test_perplexity.reset();
  const SnapshotFolder* snapshots = files_.snapshots();
  if (snapshots == nullptr) return;
  WithRoom("the last good weights", [&] {
    const std::unique_ptr<ModelWriter> writer = snapshots->Begin(StateAt(version));
    space_.Mover().Write(*writer, ModelTensors(*context_.model, context_.OptimizerStates()),
                         *final_tiles_);
    WorkBeside(
        context_.client, [this] { takeover_.leadership().Keep(); },
        [&](const std::function<void()>& go_on) { writer->Finish(go_on); });
  });
  snapshots->RemoveNewerThan(version);
  snapshots->KeepNewest(1, version);
}

AuditSummary JobRun::AuditsSoFar() const {
  const RunState& past = beginning_.past();
  // The weights also depend on the steps of earlier lives, which may have had fewer audits.
  const double share = past.version > 0 ? std::min(past.audit_share, context_.job.tasks.audit)
                                        : context_.job.tasks.audit;
  AuditSummary summary{share, past.audits_passed, past.audits_skipped, {}};
  if (const Audits* audits = driver_.audits()) {
    summary.passed += static_cast<std::int64_t>(audits->passed());
    summary.skipped += static_cast<std::int64_t>(audits->skipped());
  }
  return summary;
}

void JobRun::FillReceipt() {
  receipt_.job = JobToJson(context_.job);
  receipt_.conflicts = notices_.conflicts();
  receipt_.train_sha256 = context_.data.train_sha256();
  receipt_.test_sha256 = context_.data.test_sha256();
  receipt_.train_samples = context_.data.train_samples();
  receipt_.code_version = ACAN_VERSION;
  receipt_.numerics_revision = kNumericsRevision;
  receipt_.handlers = statistics_.handlers().All();
  receipt_.tasks_done = beginning_.past().tasks_done + space_.tasks_put();
  receipt_.tasks_reissued = static_cast<std::int64_t>(statistics_.progress().reissued);
  receipt_.tasks_duplicated = statistics_.tasks_duplicated();
  receipt_.not_finite = divergence_.found();
  receipt_.metrics_missing = files_.MissingMetrics();
  receipt_.audits = AuditsSoFar();
}

// Waits for the answers to all requests, and for a last query of the statistics.
void JobRun::AwaitAnswers() {
  statistics_.Look();
  LongWait answers(tuplespace::MonotonicUs());
  while (statistics_.looking() || context_.client.unanswered() > 0) {
    takeover_.leadership().PollOnce();
    if (const auto seconds = answers.Due(tuplespace::MonotonicUs())) {
      context_.Log(fmt::format(
          "the job is done but for {} requests that the broker has not answered for {} s",
          context_.client.unanswered(), *seconds));
    }
  }
}

Receipt JobRun::Finish() {
  tuplespace::Client& client = context_.client;
  beginning_.ForgetWeights();
  files_.DropSnapshot([this] { takeover_.leadership().PollOnce(); });
  // There must be a folder for the model, and a successor's model must stay.
  files_.Check();
  if (!divergence_.kept_version()) WriteWeights();
  const bool ended_early = divergence_.kept_version().has_value();
  if (ended_early) WriteKept();
  AwaitAnswers();
  FillReceipt();
  NoteTuning(/*at_once=*/true);
  WithRoom(fmt::format("the last lines of {} and {}", kMetricsName, kTuningName),
           [&] { files_.FinishLines(); });
  audits_.Finish(&receipt_);
  takeover_.leadership().Confirm();
  files_.Check();
  // From now on, a successor finds that the job is done.
  WithRoom(kReceiptName, [&] { files_.WriteReceipt(receipt_); });
  // Stopping would gain nothing now, unless the broker is gone and cannot be told.
  client.SetInterrupt([this] {
    if (!context_.client.connected()) stop_.Check();
  });
  client.ChangeUnder(std::nullopt);  // the job is done, whoever leads now
  tuplespace::Tuple done;
  done.key = DoneKey(context_.job_id);
  done.payload = tuplespace::Payload::Copy(JsonTextReplacing(ReceiptToJson(receipt_)));
  client.Put({done});
  if (files_.snapshots() != nullptr && !ended_early) files_.snapshots()->RemoveAll();
  takeover_.earlier_runs().RemoveOwn();
  takeover_.GiveUp();  // whether or not the lead was lost: nothing depends on it any more
  return receipt_;
}

}  // namespace acan
