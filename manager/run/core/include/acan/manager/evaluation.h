// Evaluation: where the evaluation of the newest version stands. Its batches are opened in some
// units, in order, and committed in the same order.
#pragma once

#include <cstdint>
#include <optional>

#include "acan/manager/pass_losses.h"

namespace acan {

class Evaluation {
 public:
  explicit Evaluation(std::int64_t samples) : samples_(samples) {}

  // ---- opening: of the version with which the next step begins ---------------------------------

  bool IsOpened() const { return opening_ == Opening::kWhole || samples_ == 0; }
  std::int64_t next_sample() const { return next_sample_; }
  // The samples before `end` are opened. Whether these were the last ones.
  bool OpenedUntil(std::int64_t end);
  void OnStepOpened() { opening_ = Opening::kNotWhole; }

  // ---- committing
  // --------------------------------------------------------------------------------

  struct Sums {
    double loss = 0, right = 0;  // over all samples
    double losses = 0;           // how many are summed
    bool is_new = false;         // false: `version` was evaluated before the run went back
  };
  // Adds the loss and the right answers of some batches, which have so many losses; with the last
  // ones, what all came to.
  std::optional<Sums> Add(std::int64_t version, const LossTotal& total, double losses, bool last);

  // The run goes back to `version`: an evaluation of it that is not finished begins anew.
  void GoBackTo(std::int64_t version);

 private:
  enum class Opening : std::uint8_t { kNotWhole, kWhole };

  const std::int64_t samples_;
  Opening opening_ = Opening::kNotWhole;
  std::int64_t next_sample_ = 0;
  std::int64_t newest_version_ = -1;  // of those that are committed
  Sums sums_;
};

}  // namespace acan
