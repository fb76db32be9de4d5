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
  if (!finite_through_) throw NotFiniteFound{good};
  return good;
}

}  // namespace acan
