// The files that a job reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "acan/manager/job.h"

namespace acan {

struct JobFile {
  std::string key;  // that names it in the job: "data.train_text"
  std::filesystem::path path;
};

// Initial weights, graph file and data. They need not exist.
std::vector<JobFile> FilesOf(const Job& job);
// The bytes on the disk of all of them together; a file that cannot be examined counts as empty.
std::uintmax_t BytesOf(const std::vector<JobFile>& files);

}  // namespace acan
