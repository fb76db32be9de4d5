// Progress: how far a run is, for display.
#pragma once

#include <cstdint>
#include <optional>

namespace acan {

// Sent after every step, evaluation and noteworthy change.
struct Progress {
  std::int64_t epoch = 0, epochs = 0;  // epoch counts from 1
  std::int64_t step = 0, steps = 0;    // steps done, and their total
  double loss = 0;                     // of the last step
  double samples_per_s = 0;            // over the last seconds
  int handlers = 0;                    // present now
  std::uint64_t reissued = 0;
  std::optional<double> eta_s;  // until the last step is done; unset during the first steps
  std::optional<double> test_loss, test_accuracy;  // set right after an evaluation
  bool epoch_done = false;                         // after an evaluation: `epoch` has no more steps
  std::optional<std::int64_t> not_finite_step;     // NotFinite::step, if there was one
};

}  // namespace acan
