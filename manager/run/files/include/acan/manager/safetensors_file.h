// SafetensorsFile: a safetensors file with a checked header, read piece by piece.
#pragma once

#include <sys/stat.h>
#include <time.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace acan {

// One tensor's entry in the header. Elements have 4 bytes, or 8 if `type` is "I64".
struct StoredTensor {
  std::string type;                 // "F32" or "I64"
  std::vector<std::int64_t> shape;  // of any rank; empty: one element; sizes may be 0
  std::int64_t begin = 0;           // of its bytes, as an offset in the file
  std::int64_t end = 0;             // exclusive

  std::int64_t bytes() const { return end - begin; }
};

// The constructor throws Unreadable if the system cannot open or read the file, or the file changes
// meanwhile, and Error (usage) that names it if it is truncated, malformed, inconsistent, or has
// elements of another type than F32 and I64. Tensors may lie in any order, but neither overlap nor
// leave gaps. Const methods may run on several threads.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::string path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Throws Unreadable if the system cannot read, or the file has been changed or truncated since it
  // was opened.
  void ReadAt(std::int64_t offset, void* data, std::size_t bytes) const;
  // Whether the file is, bit for bit, the snapshot that was written. Reads the whole file, and
  // calls `go_on`, if set, after each MiB.
  bool ChecksumIsRight(const std::function<void()>& go_on = {}) const;

  // Throws Error (usage): "PATH: what".
  [[noreturn]] void Refuse(const std::string& what) const;
  // For the end of a message: what to do if the path belongs to a model that transformers saved in
  // several files. Empty for other paths.
  std::string ShardsHint() const;

 private:
  class Header;

  void Open();
  struct stat Status() const;  // throws Unreadable
  // Throws Unreadable: "PATH: how while it was in use".
  [[noreturn]] void ThrowChanged(const std::string& how) const;

  const std::string path_;
  int descriptor_ = -1;
  std::int64_t file_bytes_ = 0;
  std::int64_t data_begin_ = 0;
  timespec modified_ = {};
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace acan
