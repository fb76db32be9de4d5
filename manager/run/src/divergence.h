// Divergence: the first loss or weights of a run that are not finite, and what follows.
//
// The loss of step s is not finite: then the weights after s steps are bad, and those after s - 1
// are the last of which a loss was finite. By then they are gone, as keeping them for all steps
// would cost every run the memory of two more versions. So the run goes back to the newest earlier
// snapshot, or to its beginning, and does those steps again: to the same bits. This second life
// keeps two versions in the space and looks at the weights of each step, which finds the first ones
// that are not finite even where no loss shows them (relu makes 0 of a NaN).
#pragma once

#include <cstdint>
#include <optional>

#include "acan/manager/metrics_log.h"
#include "acan/manager/receipt.h"
#include "acan/manager/run_context.h"

namespace acan {

class Divergence {
 public:
  // `finite_through`: set in a life that looks for the last good weights, which are of this version
  // at the latest. The context must outlive it.
  Divergence(const RunContext& context, std::optional<std::int64_t> finite_through)
      : context_(context), finite_through_(finite_through) {}

  // One version for a loss that is not finite, one for the step that finds it.
  std::int64_t kept_versions() const { return IsSought() ? 2 : 0; }
  bool IsSought() const { return finite_through_.has_value(); }

  // What an earlier life has in its metrics.
  void OnEarlier(const StepMetrics& first);
  // Something of a step, of `steps`, is not finite. The version whose weights should be kept, if
  // the run ends with it; nullopt: it goes on. Throws NotFiniteFound if it has to begin again.
  std::optional<std::int64_t> OnNotFinite(const NotFinite& found, std::int64_t steps);
  void OnKept(std::int64_t version) { found_->kept_version = version; }

  const std::optional<NotFinite>& found() const { return found_; }  // the first
  // The run ended early, with the weights of this version.
  std::optional<std::int64_t> kept_version() const {
    return found_ ? found_->kept_version : std::nullopt;
  }

 private:
  const RunContext& context_;
  const std::optional<std::int64_t> finite_through_;
  std::optional<NotFinite> found_;
};

}  // namespace acan
