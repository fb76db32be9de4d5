// Divergence: the first loss or weights of a run that are not finite, and what follows.
//
// If the loss of step s is not finite, the weights after s steps are bad, and those after s - 1 are
// the last ones with a finite loss. They are gone when the loss is known: keeping them in all steps
// would cost every run the memory of two more versions. So the run goes back to the newest earlier
// snapshot, or to its beginning, and repeats those steps with the same bits. This second life keeps
// two versions in the space and checks the weights of each step, which also finds weights that are
// not finite although no loss shows it (relu turns a NaN into 0).
//
// The run ends only if the second life agrees with the first one. If the loss or the weights of
// that step are finite in the second life, or the loss of an earlier step is not, then in exact
// precision a handler computed something wrong in one of the lives. In the first case there is no
// divergence, and the run begins a life like the first one. In the other case a third life looks
// for what the second one found. It also does so if the second life finds earlier weights that are
// not finite where the losses of the first one were: either they hid from its losses, or a handler
// of the second one is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "acan/manager/metrics_log.h"
#include "acan/manager/receipt.h"
#include "acan/manager/run_context.h"
#include "lives_in_vain.h"

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
  // Call before OnNotFinite. If an earlier life proves that what was found is wrong, or that its
  // own result was, returns what happened, for the user.
  std::optional<std::string> Contradiction(const NotFinite& found) const;
  // Something of a step, of `steps`, is not finite. Returns the version whose weights should be
  // kept, if the run ends with it; nullopt: the run continues. Throws NotFiniteFound if a new life
  // has to begin.
  std::optional<std::int64_t> OnNotFinite(const NotFinite& found, std::int64_t steps);
  // The loss of a step and the weights that it made are finite. If the life looks for the last good
  // weights because those of this step were not, it stops looking, and this returns what happened,
  // for the user.
  std::optional<std::string> OnFinite(std::int64_t step);
  void OnKept(std::int64_t version) { found_->kept_version = version; }
  // For a new life that looks for the loss or the weights of `step`, which were not finite.
  NotFiniteFound ToSeek(NotFinite::What what, std::int64_t step, std::int64_t finite_through) const;

  const std::optional<NotFinite>& found() const { return found_; }  // the first
  // The version whose weights are kept, if the run ended early.
  std::optional<std::int64_t> kept_version() const {
    return found_ ? found_->kept_version : std::nullopt;
  }

 private:
  enum class Outcome : std::uint8_t {
    kAgrees,       // with that of the life before
    kContradicts,  // one of the two is wrong
    kMayDiffer,    // nobody looked at these weights before
  };
  Outcome Compare(const NotFinite& found) const;  // REQUIRES: IsSought

  const RunContext& context_;
  std::optional<NotFiniteFound> sought_;
  std::optional<NotFinite> found_;
};

// Ends a run whose lives disagree again and again about where it stops being finite, because a
// handler computes wrong results. Pure. Owned by Manager, for Run's thread.
class Disagreements {
 public:
  // A life disagreed with the one before, when `steps` steps of the run were done. `conflicts` are
  // those of all lives. Throws Error (failure) if the run ends. The next manager can continue it.
  void On(std::int64_t steps, const std::vector<ResultConflict>& conflicts);

 private:
  LivesInVain lives_;
};

}  // namespace acan
