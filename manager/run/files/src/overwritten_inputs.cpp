#include "acan/manager/overwritten_inputs.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "acan/core/error.h"
#include "acan/manager/job_files.h"
#include "acan/manager/output_names.h"

namespace acan {
namespace {

namespace fs = std::filesystem;

// The files that a run writes or removes, including all existing snapshots.
std::vector<fs::path> OutputsIn(const fs::path& folder) {
  std::vector<fs::path> outputs;
  for (const char* name : kOutputFiles) outputs.push_back(folder / name);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / kSnapshotsName, error)) {
    outputs.push_back(entry.path());
  }
  return outputs;
}

}  // namespace

void RequireOtherInputs(const Job& job, const std::string& out_dir) {
  const std::vector<fs::path> outputs = OutputsIn(out_dir);
  for (const JobFile& input : FilesOf(job)) {
    for (const fs::path& output : outputs) {
      std::error_code none;  // the file does not exist
      if (!fs::equivalent(input.path, output, none)) continue;
      throw UsageError(fmt::format(
          "{}: {} is the file {}, which a run with this --out replaces or removes: choose another "
          "--out, or copy the file and name the copy",
          input.key, input.path.string(), output.string()));
    }
  }
}

}  // namespace acan
