#include "out_folder.h"

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
  std::error_code error;
  for (const std::string& folder : missing_) {
    if (fs::is_directory(folder, error) && !fs::remove(folder, error)) return;
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
