#include "acan/manager/output_names.h"

#include <filesystem>

#include "fmt/format.h"

namespace acan {

// Wide enough that names sort like versions.
std::string SnapshotFileName(std::int64_t version) {
  return fmt::format("step-{:012}.safetensors", version);
}

std::string SnapshotName(std::int64_t version) {
  return std::string(kSnapshotsName) + "/" + SnapshotFileName(version);
}

std::string FileOfWeights(const std::string& weights, const char* name) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(weights).parent_path();
  std::error_code ignored;
  if (fs::exists(folder / name, ignored)) return (folder / name).string();
  if (folder.filename() != kSnapshotsName) return "";
  const fs::path above = folder.parent_path() / name;
  return fs::exists(above, ignored) ? above.string() : "";
}

}  // namespace acan
