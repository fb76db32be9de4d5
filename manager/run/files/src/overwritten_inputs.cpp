#include "acan/manager/overwritten_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "acan/core/error.h"
#include "acan/manager/initial_weights.h"
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

// The output that is the file `input`, perhaps under another name; null if there is none.
const fs::path* FindOutput(const std::vector<fs::path>& outputs, const fs::path& input) {
  const auto found = std::ranges::find_if(outputs, [&input](const fs::path& output) {
    std::error_code none;  // the file does not exist
    return fs::equivalent(input, output, none);
  });
  return found == outputs.end() ? nullptr : &*found;
}

// What lies beside the initial weights says what these mean, and may be the only copy. A run that
// began from the same weights in `out_dir` wrote these files itself.
void RequireOtherDescriptions(const Job& job, const std::string& out_dir,
                              const std::vector<fs::path>& outputs) {
  if (BeganFromWeights(job.initial_weights_sha256, out_dir)) return;
  for (const char* name : {kConfigName, kJobName, kVocabularyName}) {
    const std::string path = FileOfWeights(job.initial_weights, name);
    if (path.empty() || FindOutput(outputs, path) == nullptr) continue;
    throw UsageError(
        fmt::format("model.initial_weights: {} describes these weights, and a run with this --out "
                    "replaces or removes it: choose another --out",
                    path));
  }
}

}  // namespace

void RequireOtherInputs(const Job& job, const std::string& out_dir) {
  const std::vector<fs::path> outputs = OutputsIn(out_dir);
  for (const JobFile& input : FilesOf(job)) {
    const fs::path* output = FindOutput(outputs, input.path);
    if (output == nullptr) continue;
    throw UsageError(fmt::format(
        "{}: {} is the file {}, which a run with this --out replaces or removes: choose another "
        "--out, or copy the file and name the copy",
        input.key, input.path.string(), output->string()));
  }
  if (!job.initial_weights.empty()) RequireOtherDescriptions(job, out_dir, outputs);
}

}  // namespace acan
