// LostFiles: ends a run whose lives are in vain because the disk does not keep the run's files. It
// counts only lives that end with FilesLost: a broker may be lost again and again. Pure. Owned by
// Manager, for Run's thread.
#pragma once

#include <cstdint>

#include "acan/manager/run_context.h"

namespace acan {

class LostFiles {
 public:
  // The number of lives without a new step after which the run ends. A life may take only a
  // fraction of a second, and a disk may recover.
  static constexpr int kMostLives = 10;

  // A life ended because of `lost`, when `steps` steps of the run were done. Throws Error (failure)
  // if the run ends. Then the next manager can continue it, as after any other failure of a disk.
  void OnLost(const FilesLost& lost, std::int64_t steps);

 private:
  std::int64_t most_steps_ = -1;  // that were done when a life ended
  int lives_ = 0;                 // since then
};

}  // namespace acan
