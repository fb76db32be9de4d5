#include "divergence.h"

#include <algorithm>

#include "fmt/format.h"

namespace acan {

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
        loss ? "loss" : "weights", found.step, steps, loss ? "is" : "are", found.learning_rate));
  }
  if (!context_.job.stop_if_not_finite) return std::nullopt;
  // The loss of a step belongs to the weights before the step.
  const std::int64_t good = std::max<std::int64_t>(0, loss ? found.step - 1 : found.step);
  if (!sought_) throw NotFiniteFound{good, found.what, found.step};
  return good;
}

std::optional<std::string> Divergence::OnFinite(std::int64_t step) {
  if (!sought_ || step < sought_->step) return std::nullopt;
  const bool loss = sought_->what == NotFinite::What::kLoss;
  const std::int64_t first = sought_->step;
  sought_.reset();
  return fmt::format(
      "the {0} of step {1} {2} not finite, and {3} finite when the step is computed again",
      loss ? "loss" : "weights", first, loss ? "was" : "were", loss ? "is" : "are");
}

}  // namespace acan
