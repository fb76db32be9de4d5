// Data that took long to make (compiled programs, chosen sizes), kept on disk between processes.
#pragma once

#include <optional>
#include <string>

namespace acan::opencl {

// $XDG_CACHE_HOME/acan, otherwise ~/.cache/acan; empty if there is no home, and then nothing is
// kept.
std::string CacheFolder();

class ProgramCache {
 public:
  explicit ProgramCache(std::string folder) : folder_(std::move(folder)) {}

  // The bytes stored under `key`. A file that is damaged, cannot be read, or was made for another
  // key, is reported on stderr and counts as missing; it will be rewritten.
  std::optional<std::string> Load(const std::string& key) const;
  // Replaces the file atomically, so that processes may share the folder, and removes what killed
  // processes had not finished. Errors of writing are ignored.
  void Store(const std::string& key, const std::string& bytes) const;

  // Reports on stderr what is wrong with the file of `key`, which will be rewritten.
  void Warn(const std::string& key, const std::string& problem) const;

  std::string PathOf(const std::string& key) const;

 private:
  std::string folder_;
};

}  // namespace acan::opencl
