// Where a model's tensors lie in a safetensors file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "acan/manager/model_file.h"
#include "acan/manager/sha256.h"

namespace acan {

inline constexpr std::int64_t kMaxModelHeaderBytes = 16 << 20;

// The name of a snapshot's checksum in the header: SHA-256 over the whole file, with its own digits
// taken as zeros.
inline constexpr const char* kChecksumName = "file_sha256";
inline const std::string kNoChecksum(64, '0');

inline std::size_t ChecksumPlace(const std::string& header) {
  const std::string before = std::string("\"") + kChecksumName + "\":\"";
  const std::size_t at = header.find(before);
  return at == std::string::npos ? at : at + before.size();
}

// The bytes of one tensor in the file, from the file's start.
struct TensorPlace {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // exclusive
};

inline std::int64_t TensorBytes(const TensorInfo& tensor) {
  return tensor.rows() * tensor.cols() * static_cast<std::int64_t>(sizeof(float));
}

// Calls run(offset of the first byte, index of the first value, count of values) for every stretch
// of the rectangle [row, row + rows) x [col, col + cols) that is contiguous in the file.
// REQUIRES: the rectangle is inside the tensor.
void ForEachRun(const TensorInfo& tensor, const TensorPlace& place, std::int64_t row,
                std::int64_t col, std::int64_t rows, std::int64_t cols,
                const std::function<void(std::int64_t, std::size_t, std::size_t)>& run);

// Adds the tensors' bytes in the order given; `read` fills a buffer from an offset.
using ReadBytes = std::function<void(std::int64_t, void*, std::size_t)>;
void HashTensors(const std::vector<TensorPlace>& places, const ReadBytes& read, Sha256* hash);

}  // namespace acan
