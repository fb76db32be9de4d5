// Evaluation: the state of the evaluation of the newest version. Its batches are opened as several
// units, in order, and committed in the same order.
#pragma once

#include <cstdint>
#include <optional>

#include "acan/manager/pass_losses.h"

namespace acan {

class Evaluation {
 public:
  explicit Evaluation(std::int64_t samples) : samples_(samples) {}

  // ---- opening: the version with which the next step begins ------------------------------------

  bool IsOpened() const { return opening_ == Opening::kWhole || samples_ == 0; }
  std::int64_t next_sample() const { return next_sample_; }
  // The samples before `end` are opened. Returns whether they are the last ones.
  bool OpenedUntil(std::int64_t end);
  void OnStepOpened() { opening_ = Opening::kNotWhole; }

  // ---- committing ------------------------------------------------------------------------------

  struct Sums {
    double loss = 0, right = 0;  // over all samples
    double losses = 0;           // the number of losses summed
    bool is_new = false;         // false: evaluated before the run went back
  };
  // Adds the loss and the right answers of some batches with `losses` losses. After the last batch,
  // returns the totals.
  std::optional<Sums> Add(std::int64_t version, const LossTotal& total, double losses, bool last);

  // The run goes back to `version`: an unfinished evaluation of it begins anew.
  void GoBackTo(std::int64_t version);

 private:
  enum class Opening : std::uint8_t { kNotWhole, kWhole };

  const std::int64_t samples_;
  Opening opening_ = Opening::kNotWhole;
  std::int64_t next_sample_ = 0;
  std::int64_t newest_version_ = -1;  // of the committed evaluations
  Sums sums_;
};

}  // namespace acan
