#include "divergence.h"

#include <algorithm>

#include "acan/core/error.h"
#include "fmt/format.h"

namespace acan {
namespace {

const char* Name(NotFinite::What what) {
  return what == NotFinite::What::kLoss ? "loss" : "weights";
}

std::string FiniteAgain(const NotFiniteFound& sought) {
  const bool loss = sought.what == NotFinite::What::kLoss;
  return fmt::format(
      "the {0} of step {1} {2} not finite, and {3} finite when the step is computed again",
      Name(sought.what), sought.step, loss ? "was" : "were", loss ? "is" : "are");
}

}  // namespace

void Divergence::OnEarlier(const StepMetrics& first) {
  found_ = NotFinite{NotFinite::What::kLoss, first.step, first.learning_rate, std::nullopt};
}

std::optional<std::int64_t> Divergence::OnNotFinite(const NotFinite& found, std::int64_t steps) {
  const bool loss = found.what == NotFinite::What::kLoss;
  if (!found_) {
    found_ = found;
    context_.Log(fmt::format(
        "the {} of step {} (counted from 0, as in metrics.jsonl) of {} {} not finite; the "
        "learning rate is {}",
        Name(found.what), found.step, steps, loss ? "is" : "are", found.learning_rate));
  }
  if (!context_.job.stop_if_not_finite) return std::nullopt;
  // The loss of a step belongs to the weights before the step.
  const std::int64_t good = std::max<std::int64_t>(0, loss ? found.step - 1 : found.step);
  if (sought_ && Compare(found) == Outcome::kAgrees) return good;
  NotFiniteFound next = ToSeek(found.what, found.step, good);
  next.disputed = IsSought();
  if (next.disputed) {
    context_.Log(
        fmt::format("the life before found the {} of step {} not finite, and nothing earlier; the "
                    "run ends only when two lives agree",
                    Name(sought_->what), sought_->step));
  }
  throw next;
}

NotFiniteFound Divergence::ToSeek(NotFinite::What what, std::int64_t step,
                                  std::int64_t finite_through) const {
  // Weights are looked at when the loss of their step is known.
  std::int64_t finite_losses = sought_ ? sought_->finite_losses : step + 1;
  if (found_ && found_->what == NotFinite::What::kLoss) {
    finite_losses = std::min(finite_losses, found_->step);
  }
  return {finite_through, what, step, finite_losses};
}

Divergence::Outcome Divergence::Compare(const NotFinite& found) const {
  // Devices may round differently, which moves the step at which a run diverges.
  if (context_.job.training.precision != Precision::kExact) return Outcome::kAgrees;
  if (found.what == NotFinite::What::kLoss) {
    return found.step < sought_->finite_losses ? Outcome::kContradicts : Outcome::kAgrees;
  }
  if (sought_->what == NotFinite::What::kLoss && found.step >= sought_->step) {
    return Outcome::kContradicts;
  }
  // The loss of a step belongs to the weights that the step before it made.
  const std::int64_t shown =
      sought_->what == NotFinite::What::kLoss ? sought_->step - 1 : sought_->step;
  return found.step == shown ? Outcome::kAgrees : Outcome::kMayDiffer;
}

std::optional<std::string> Divergence::Contradiction(const NotFinite& found) const {
  if (!sought_ || Compare(found) != Outcome::kContradicts) return std::nullopt;
  if (found.what == NotFinite::What::kWeights) return FiniteAgain(*sought_);
  return fmt::format(
      "the loss of step {} was finite, and is not finite when the step is computed again",
      found.step);
}

std::optional<std::string> Divergence::OnFinite(std::int64_t step) {
  if (!sought_ || step < sought_->step) return std::nullopt;
  const std::string text = FiniteAgain(*sought_);
  sought_.reset();
  return text;
}

void Disagreements::On(std::int64_t steps, const std::vector<ResultConflict>& conflicts) {
  if (!lives_.OnEnd(steps)) return;
  const std::string known =
      conflicts.empty() ? ""
                        : fmt::format(" ({} conflict{}: {})", conflicts.size(),
                                      conflicts.size() == 1 ? "" : "s", conflicts.back().text);
  throw FailureError(fmt::format(
      "{} lives of the run did no new step, because they disagreed about where it stops being "
      "finite, so a handler computes wrong results{}. Continue without it, with --resume, or train "
      "again with tasks.audit = 1, which finds the faulty one",
      LivesInVain::kMost, known));
}

}  // namespace acan
