// For tests: temporary folders, and writers of file formats.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "acan/core/error.h"

namespace acan {

// A new folder that is removed with its contents at the end.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "acan_test_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed: " + name);
    path_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    // Truncating a file makes some file systems wait for the disk; removing it does not.
    std::filesystem::remove(Path(name));
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }
  // The sorted names of the files in a subfolder.
  std::vector<std::string> Names(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(Path(folder))) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::size_t FileCount() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::string path_;
};

inline std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename T>
std::string Raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline std::string BigEndian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

inline std::string IdxHeader(int type, const std::vector<std::uint32_t>& shape) {
  std::string bytes{'\0', '\0', static_cast<char>(type), static_cast<char>(shape.size())};
  for (const std::uint32_t size : shape) bytes += BigEndian(size);
  return bytes;
}

inline std::string IdxBytes(const std::vector<std::uint32_t>& shape,
                            const std::vector<std::uint8_t>& values) {
  return IdxHeader(0x08, shape) + Raw(values);
}

// An NPY file. `dictionary` is its header without trailing blanks.
inline std::string NpyWith(const std::string& dictionary, const std::string& values,
                           int version = 1) {
  std::string header = dictionary;
  while ((header.size() + 11) % 64 != 0) header += ' ';
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  }
  return bytes + header + values;
}

inline std::string Npy(const std::string& type, const std::string& shape, const std::string& values,
                       int version = 1) {
  return NpyWith("{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }",
                 values, version);
}

inline std::string Gzip(const std::string& bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2 failed");
  }
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// Runs `action`, which must throw an Error of `kind` whose text contains all `parts`.
inline void ExpectError(const std::function<void()>& action, const std::vector<std::string>& parts,
                        Error::Kind kind = Error::Kind::kUsage) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.what();
    }
    return;
  }
  std::string all;
  for (const std::string& part : parts) all += " '" + part + "'";
  ADD_FAILURE() << "expected an error with" << all;
}

}  // namespace acan
