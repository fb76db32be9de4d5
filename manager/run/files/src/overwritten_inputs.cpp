#include "acan/manager/overwritten_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "acan/core/error.h"
#include "acan/manager/initial_weights.h"
#include "acan/manager/job_files.h"
#include "acan/manager/output_names.h"

namespace acan {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // in a path, as Linux allows

// The files that a run writes or removes, including all existing snapshots.
std::vector<fs::path> OutputsIn(const fs::path& folder) {
  std::vector<fs::path> outputs;
  for (const char* name : kOutputFiles) outputs.push_back(folder / name);
  outputs.push_back(folder / kManagerLockName);
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

// Where `path` leads from the folder `place`, whose own path has no links. Follows at most `*links`
// links, because they may lead in a circle.
fs::path Followed(fs::path place, const fs::path& path, int* links) {
  for (const fs::path& part : path) {
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      place = place.parent_path();
      continue;
    }
    fs::path next = place / part;  // if `path` is absolute, its first part replaces `place`
    std::error_code none;          // it is no link, or does not exist
    const fs::path target = fs::read_symlink(next, none);
    if (none || *links == 0) {
      place = std::move(next);
    } else {
      --*links;
      place = Followed(std::move(place), target, links);
    }
  }
  return place;
}

// Where a file of this path would be made if there is none. Folders on the way may be missing, too,
// and so may be what links lead to, which fs::weakly_canonical does not follow then.
fs::path PathWithoutLinks(const fs::path& path) {
  std::error_code unknown;
  int links = kMaxLinks;
  return Followed(fs::current_path(unknown), path, &links);
}

// What lies beside the initial weights says what these mean, and may be the only copy. A run that
// began from the same weights in `out_dir` wrote these files itself.
void RequireOtherDescriptions(const Job& job, const std::string& out_dir,
                              const std::vector<fs::path>& outputs) {
  for (const char* name : {kConfigName, kJobName, kVocabularyName}) {
    const std::string path = FileOfWeights(job.initial_weights, name);
    if (path.empty() || FindOutput(outputs, path) == nullptr) continue;
    if (BeganFromWeights(job.initial_weights_sha256, out_dir)) return;
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

void RequireOtherAuditLog(const std::string& audit_log, const std::string& out_dir) {
  if (audit_log.empty() || out_dir.empty()) return;
  const fs::path place = PathWithoutLinks(audit_log);
  for (const fs::path& output : OutputsIn(out_dir)) {
    std::error_code none;  // one of the files does not exist
    if (PathWithoutLinks(output) != place && !fs::equivalent(output, audit_log, none)) continue;
    throw UsageError(
        fmt::format("the audit log {} is the file {}, which a run with this --out writes, replaces "
                    "or removes: name another file",
                    audit_log, output.string()));
  }
}

}  // namespace acan
