// How far a run is, for people.
#pragma once

#include <cstdint>
#include <optional>

namespace acan {

// A snapshot for people; sent after every step, evaluation and noteworthy change.
struct Progress {
  std::int64_t epoch = 0, epochs = 0;  // epoch counts from 1
  std::int64_t step = 0, steps = 0;    // steps done, of all
  double loss = 0;                     // of the last step
  double samples_per_s = 0;            // over the last seconds
  int handlers = 0;                    // alive now
  std::uint64_t reissued = 0;
  std::optional<double> eta_s;  // until the last step is done; unknown in the first few steps
  std::optional<double> test_loss, test_accuracy;  // set right after an evaluation
  bool epoch_done = false;                         // of an evaluation: no step of `epoch` is left
  std::optional<std::int64_t> not_finite_step;     // NotFinite::step, once there was one
};

}  // namespace acan
