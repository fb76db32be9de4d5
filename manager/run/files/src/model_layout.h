// The layout of a model's tensors in a safetensors file.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "acan/manager/model_file.h"
#include "acan/manager/sha256.h"

namespace acan {

inline constexpr std::int64_t kMaxModelHeaderBytes = 100'000'000;

// The name of a snapshot's checksum in the header: SHA-256 over the whole file, with the checksum's
// own digits as zeros and the tensors in the order of their names.
inline constexpr const char* kChecksumName = "file_sha256";
inline const std::string kNoChecksum(64, '0');

inline std::size_t ChecksumPlace(const std::string& header) {
  const std::string before = std::string("\"") + kChecksumName + "\":\"";
  const std::size_t at = header.find(before);
  return at == std::string::npos ? at : at + before.size();
}

// The position of one tensor's bytes in the file.
struct TensorPlace {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // exclusive
};

inline std::int64_t TensorBytes(const TensorInfo& tensor) {
  return tensor.rows * tensor.cols * static_cast<std::int64_t>(sizeof(float));
}

// The rectangle [row, row + rows) x [col, col + cols) of a matrix.
struct Rectangle {
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

// A contiguous run of values in the file: value k is value first + k x stride of the rectangle,
// row-major.
struct FileRun {
  std::int64_t offset = 0;  // of its first byte in the file
  std::size_t first = 0;
  std::size_t stride = 1;
  std::size_t count = 0;
};

// Calls `run` for every contiguous run of the rectangle, with ascending offsets.
// REQUIRES: the rectangle is inside the tensor.
void ForEachRun(const TensorInfo& tensor, const TensorPlace& place, const Rectangle& rectangle,
                const std::function<void(const FileRun&)>& run);

// Writes or reads the rectangle's values, row-major, in few and large calls of `write` or `read`,
// which get an offset, a pointer and a number of bytes.
using WriteBytes = std::function<void(std::int64_t, const void*, std::size_t)>;
using ReadBytes = std::function<void(std::int64_t, void*, std::size_t)>;
void WriteRectangle(const TensorInfo& tensor, const TensorPlace& place, const Rectangle& rectangle,
                    std::span<const float> values, const WriteBytes& write);
void ReadRectangle(const TensorInfo& tensor, const TensorPlace& place, const Rectangle& rectangle,
                   std::span<float> out, const ReadBytes& read);

// Adds the tensors' bytes in the given order; `read` fills a buffer from an offset.
void HashTensors(const std::vector<TensorPlace>& places, const ReadBytes& read, Sha256* hash);

}  // namespace acan
