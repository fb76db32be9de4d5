// What a JobRun does when it diverges: when a loss or weights are not finite.
//
// The loss of step s is not finite: then the weights after s steps are bad, and those after s - 1
// are the last of which a loss was finite. By then they are gone, as keeping them for all steps
// would cost every run the memory of two more versions. So the run goes back to the newest earlier
// snapshot, or to its beginning, and does those steps again: to the same bits. This second life
// keeps two versions in the space and looks at the weights of each step, which finds the first ones
// that are not finite even where no loss shows them (relu makes 0 of a NaN).
#include <algorithm>
#include <cmath>

#include "acan/core/error.h"
#include "acan/core/schedule.h"
#include "acan/manager/metrics_log.h"
#include "acan/manager/work_beside.h"
#include "fmt/format.h"
#include "job_run.h"

namespace acan {

// Those of an earlier life are in its metrics.
void JobRun::NoteEarlierNotFinite() {
  const std::optional<StepMetrics>& first = metrics_->first_not_finite();
  if (!first) return;
  receipt_.not_finite =
      NotFinite{NotFinite::What::kLoss, first->step, first->learning_rate, std::nullopt};
  progress_.not_finite_step = first->step;
}

void JobRun::LookAtStep(const StepCommitted& action) {
  NotFinite found{NotFinite::What::kLoss, action.step, action.learning_rate, std::nullopt};
  if (std::isfinite(action.loss)) {
    if (!finite_through_) return;
    const Graph graph(job_.model, job_.training, *core_->plan());
    if (Mover().AreFinite(graph.Tiles(run_, action.step + 1))) return;
    found.what = NotFinite::What::kWeights;
  }
  NoteNotFinite(found);
}

void JobRun::NoteNotFinite(const NotFinite& found) {
  if (!receipt_.not_finite) {
    const bool loss = found.what == NotFinite::What::kLoss;
    receipt_.not_finite = found;
    progress_.not_finite_step = found.step;
    Log(
        fmt::format("the {} of step {} (from 0, as in metrics.jsonl) of {} {} not finite; the "
                    "learning rate is {}",
                    loss ? "loss" : "weights", found.step, core_->total_steps(),
                    loss ? "is" : "are", found.learning_rate));
  }
  if (!job_.stop_if_not_finite) return;
  // The loss of a step is that of the weights before it.
  const std::int64_t good = found.what == NotFinite::What::kLoss ? found.step - 1 : found.step;
  if (!finite_through_) throw NotFiniteFound{std::max<std::int64_t>(0, good)};
  KeepVersion(std::max<std::int64_t>(0, good));
}

// It may be in another cut than the newest.
void JobRun::KeepVersion(std::int64_t version) {
  std::optional<TileMover::Whole> whole =
      Mover().FindWhole(run_, job_.model, StateCount(job_.training.optimizer), version);
  if (!whole || whole->version != version) throw NotFiniteFound{version};
  receipt_.not_finite->kept_version = version;
  for (const tuplespace::RequestId id : open_reads_) Submit(tuplespace::Cancel{id});
  final_tiles_ = std::move(whole->tiles);
}

// The model that was trained to the end.
void JobRun::WriteWeights() {
  const std::string path = options_.out_dir.empty() ? "" : OutPath("model.safetensors");
  const TileMover::Written written =
      Mover().WriteModel(path, job_.model, *final_tiles_, job_.stop_if_not_finite);
  receipt_.weights_sha256 = written.weights_sha256;
  receipt_.steps = core_->total_steps();
  receipt_.epochs = job_.training.epochs;
  if (written.finite) return;
  NotFinite found{NotFinite::What::kWeights, 0, job_.training.learning_rate, std::nullopt};
  if (receipt_.steps > 0) {
    found.step = receipt_.steps - 1;
    found.learning_rate = LearningRateAt(job_.training, found.step, receipt_.steps);
  }
  NoteNotFinite(found);
}

void JobRun::WriteKept() {
  const std::int64_t version = *receipt_.not_finite->kept_version;
  const TileMover::Written written = Mover().WriteModel("", job_.model, *final_tiles_, true);
  if (!written.finite && version > 0) throw NotFiniteFound{version - 1};
  if (!written.finite) {
    throw FailureError(
        "the weights with which the run began are not finite: look at model.initial_weights");
  }
  receipt_.weights_sha256 = written.weights_sha256;
  receipt_.steps = version;
  receipt_.epochs =
      version * job_.training.epochs / std::max<std::int64_t>(1, core_->total_steps());
  // Of whichever epoch was done last; they say nothing of these weights.
  receipt_.test_loss.reset();
  receipt_.test_accuracy.reset();
  if (!snapshots_) return;
  const std::unique_ptr<ModelWriter> writer = snapshots_->Begin(StateAt(version));
  Mover().Write(*writer, ModelTensors(job_.model, StateCount(job_.training.optimizer)),
                *final_tiles_);
  WorkBeside(
      client_, [this] { KeepLead(); },
      [&](const std::function<void()>& go_on) { writer->Finish(go_on); });
  snapshots_->RemoveNewerThan(version);
  snapshots_->KeepNewest(1);
}

}  // namespace acan
