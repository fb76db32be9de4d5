#include "lost_files.h"

#include "acan/core/error.h"
#include "fmt/format.h"

namespace acan {

void LostFiles::OnLost(const FilesLost& lost, std::int64_t steps) {
  if (!lives_.OnEnd(steps)) return;
  throw FailureError(
      fmt::format("{}; {} lives of the run ended with this and did no new step: check the disk, "
                  "and then continue with --resume",
                  lost.why, kMostLives));
}

}  // namespace acan
