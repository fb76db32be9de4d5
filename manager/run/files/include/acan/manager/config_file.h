// The config.json that a run writes for transformers.
#pragma once

#include <string>

#include "acan/manager/job.h"

namespace acan {

class ConfigFile {
 public:
  // Reads what the files of the initial weights know beyond the model (TakeNamesOf): they may be
  // gone before the run ends. Does nothing for a job without such a file (output.config).
  explicit ConfigFile(const Job& job);

  // Writes the file into `folder`, or removes it if the job requests none. If `resumes`, and the
  // folder's run began from the same weights, the names are those of its file, whatever happened to
  // the initial weights since. Called before the folder's job.json is written. Returns a warning if
  // the names are lost, otherwise an empty text. Throws Error (failure), and Unreadable.
  std::string Begin(const std::string& folder, bool resumes);
  // Writes the same file again, in case that somebody has removed or changed it.
  void Write(const std::string& folder) const;

 private:
  void TakeNames(const std::string& path);

  const std::string weights_, weights_sha256_;  // empty: random initial weights
  std::string text_;                            // empty: there is no file
};

}  // namespace acan
