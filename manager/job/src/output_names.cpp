#include "acan/manager/output_names.h"

#include "fmt/format.h"

namespace acan {

// Wide enough that names sort like versions.
std::string SnapshotFileName(std::int64_t version) {
  return fmt::format("step-{:012}.safetensors", version);
}

std::string SnapshotName(std::int64_t version) {
  return std::string(kSnapshotsName) + "/" + SnapshotFileName(version);
}

}  // namespace acan
