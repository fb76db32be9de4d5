// NpyWriter: writes an NPY file of float32 values in C order, piece by piece.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "acan/manager/atomic_file.h"

namespace acan {

// The file appears under its name only when Finish succeeds. Errors are as AtomicFile's.
class NpyWriter {
 public:
  NpyWriter(const std::string& path, const std::vector<std::int64_t>& shape);
  // Appends the next values. REQUIRES: there are not more than `shape` says.
  void Write(std::span<const float> values);
  // REQUIRES: all values were written.
  void Finish();

 private:
  AtomicFile file_;
  std::int64_t offset_ = 0;
  std::int64_t end_ = 0;
};

}  // namespace acan
