// Divergence: the first loss or weights of a run that are not finite, and what follows.
//
// If the loss of step s is not finite, the weights after s steps are bad, and those after s - 1 are
// the last ones with a finite loss. They are gone when the loss is known: keeping them in all steps
// would cost every run the memory of two more versions. So the run goes back to the newest earlier
// snapshot, or to its beginning, and repeats those steps with the same bits. This second life keeps
// two versions in the space and checks the weights of each step, which also finds weights that are
// not finite although no loss shows it (relu turns a NaN into 0).
//
// If the loss or the weights of that step are finite in the second life, there is no divergence. In
// exact precision this proves that a handler computed something wrong in one of the lives. The run
// then begins a life like the first one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "acan/manager/metrics_log.h"
#include "acan/manager/receipt.h"
#include "acan/manager/run_context.h"

namespace acan {

class Divergence {
 public:
  // `earlier`: set in a life that looks for the last good weights of the run that diverged so. The
  // context must outlive it.
  Divergence(const RunContext& context, std::optional<NotFiniteFound> earlier)
      : context_(context), sought_(earlier) {}

  // One version for a loss that is not finite, and one for the step that discovers it.
  std::int64_t kept_versions() const { return IsSought() ? 2 : 0; }
  bool IsSought() const { return sought_.has_value(); }

  // Reports a loss in the metrics of an earlier life.
  void OnEarlier(const StepMetrics& first);
  // Something of a step, of `steps`, is not finite. Returns the version whose weights should be
  // kept, if the run ends with it; nullopt: the run continues. Throws NotFiniteFound if a new life
  // has to begin.
  std::optional<std::int64_t> OnNotFinite(const NotFinite& found, std::int64_t steps);
  // The loss of a step and the weights that it made are finite. If the life looks for the last good
  // weights because those of this step were not, it stops looking, and this returns what happened,
  // for the user.
  std::optional<std::string> OnFinite(std::int64_t step);
  void OnKept(std::int64_t version) { found_->kept_version = version; }

  const std::optional<NotFinite>& found() const { return found_; }  // the first
  // The version whose weights are kept, if the run ended early.
  std::optional<std::int64_t> kept_version() const {
    return found_ ? found_->kept_version : std::nullopt;
  }

 private:
  const RunContext& context_;
  std::optional<NotFiniteFound> sought_;
  std::optional<NotFinite> found_;
};

}  // namespace acan
