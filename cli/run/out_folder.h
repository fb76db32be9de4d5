// What commands that train do about their output folder.
#pragma once

#include <string>
#include <vector>

#include "acan/manager/job.h"
#include "acan/manager/sample_set.h"
#include "log.h"

namespace acan::cli {

// Removes the output folder at the end of the scope, and the folders above it, if they did not
// exist at its beginning and nothing is in them.
class EmptyFolders {
 public:
  explicit EmptyFolders(const std::string& out_dir);
  ~EmptyFolders();
  EmptyFolders(const EmptyFolders&) = delete;
  EmptyFolders& operator=(const EmptyFolders&) = delete;

 private:
  std::vector<std::string> missing_;  // the innermost one first
};

// Warns if a new run of the job replaces a run in the folder that somebody may miss. `resume` is
// the command that continues an unfinished run.
void WarnOfReplacedRun(const std::string& out_dir, const Job& job, const Data& data,
                       const std::string& resume, Log& log);
// Warns if a manager that stands by for the job replaces a run of another job in the folder when it
// takes over.
void WarnOfOthersRun(const std::string& out_dir, const Job& job, const Data& data, Log& log);

}  // namespace acan::cli
