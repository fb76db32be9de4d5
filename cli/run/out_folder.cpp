#include "out_folder.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "acan/manager/replaced_run.h"
#include "acan/manager/training_id.h"

namespace acan::cli {

namespace fs = std::filesystem;

EmptyFolders::EmptyFolders(const std::string& out_dir) {
  std::error_code error;
  for (fs::path at = out_dir; !at.empty() && !fs::exists(at, error) && !error;
       at = at.parent_path()) {
    missing_.push_back(at.string());
  }
}

EmptyFolders::~EmptyFolders() {
  for (const std::string& folder : missing_) {
    // fs::remove would also remove a link that somebody has put in the folder's place.
    if (::rmdir(folder.c_str()) != 0 && errno != ENOENT) return;
  }
}

void WarnOfReplacedRun(const std::string& out_dir, const Job& job, const Data& data,
                       const std::string& resume, Log& log) {
  const std::string id = TrainingId(job, data.train_sha256(), data.test_sha256());
  const std::string text = ReplacedRunText(out_dir, id, resume);
  if (!text.empty()) log.Warning(text);
}

void WarnOfOthersRun(const std::string& out_dir, const Job& job, const Data& data, Log& log) {
  const std::string id = TrainingId(job, data.train_sha256(), data.test_sha256());
  const std::string text = OthersRunText(out_dir, id);
  if (!text.empty()) log.Warning(text);
}

}  // namespace acan::cli
