// LostFiles: ends a run whose lives are in vain because the disk does not keep the run's files. It
// counts only lives that end with FilesLost: a broker may be lost again and again, and a disk may
// recover. Pure. Owned by Manager, for Run's thread.
#pragma once

#include <cstdint>

#include "acan/manager/run_context.h"
#include "lives_in_vain.h"

namespace acan {

class LostFiles {
 public:
  static constexpr int kMostLives = LivesInVain::kMost;

  // A life ended because of `lost`, when `steps` steps of the run were done. Throws Error (failure)
  // if the run ends. Then the next manager can continue it, as after any other failure of a disk.
  void OnLost(const FilesLost& lost, std::int64_t steps);

 private:
  LivesInVain lives_;
};

}  // namespace acan
