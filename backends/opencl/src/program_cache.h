// Bytes that took long to make (compiled programs, chosen sizes), kept on disk between processes.
#pragma once

#include <optional>
#include <string>

namespace acan::opencl {

// $XDG_CACHE_HOME/acan, else ~/.cache/acan; empty if there is no home: nothing is kept then.
std::string CacheFolder();

class ProgramCache {
 public:
  explicit ProgramCache(std::string folder) : folder_(std::move(folder)) {}

  // What was kept under `key`. A file that is damaged, or was made for another key, is named on
  // stderr and is as good as none: it will be written anew.
  std::optional<std::string> Load(const std::string& key) const;
  // Replaces the file at once or not at all, so that processes may share the folder. What cannot be
  // written is not kept.
  void Store(const std::string& key, const std::string& bytes) const;

  // Says on stderr what is wrong with the file of `key`, which will be written anew.
  void Warn(const std::string& key, const std::string& problem) const;

  std::string PathOf(const std::string& key) const;

 private:
  std::string folder_;
};

}  // namespace acan::opencl
