#include "acan/manager/job_files.h"

#include <system_error>
#include <variant>

#include "nlohmann/json.hpp"

namespace acan {

namespace fs = std::filesystem;

// All texts of [data] that are absolute paths are input files.
std::vector<JobFile> FilesOf(const Job& job) {
  std::vector<JobFile> files;
  if (!job.initial_weights.empty()) {
    files.push_back({"model.initial_weights", job.initial_weights});
  }
  if (const auto* graph = std::get_if<GraphFile>(&job.model)) {
    files.push_back({"model.file", graph->path});
  }
  const nlohmann::json fields = JobToJson(job);
  for (const auto& [key, value] : fields.at("data").items()) {
    if (!value.is_string()) continue;
    const fs::path path = value.get<std::string>();
    if (path.is_absolute()) files.push_back({"data." + key, path});
  }
  return files;
}

std::uintmax_t BytesOf(const std::vector<JobFile>& files) {
  std::uintmax_t bytes = 0;
  for (const JobFile& file : files) {
    std::error_code error;
    if (!fs::is_regular_file(file.path, error)) continue;
    const std::uintmax_t size = fs::file_size(file.path, error);
    if (!error) bytes += size;
  }
  return bytes;
}

}  // namespace acan
