// StoredArray: the values of a file that may be larger than memory. They stay in the file and are
// read on demand.
//
// Files are read with pread, not mapped: if a mapped file shrinks, SIGBUS ends the process, while a
// short read is an ordinary error. The system's page cache serves both.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "acan/manager/input_file.h"

namespace acan {

std::int64_t BytesOf(NumberType type);
bool IsInteger(NumberType type);

// Row-major. Immutable: any thread may read it. Cheap to copy.
class StoredArray {
 public:
  // `shape`: as for Array. `bytes`: little-endian values, exactly as many as `shape` says.
  StoredArray(std::string path, std::vector<std::int64_t> shape, NumberType type,
              std::vector<std::uint8_t> bytes);
  // The values are the rest of a file that is not compressed. Throws Error (usage) if its length
  // does not fit `shape`.
  StoredArray(const InputFile& file, std::vector<std::int64_t> shape, NumberType type);

  const std::string& path() const { return path_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  NumberType type() const { return type_; }
  std::int64_t samples() const { return shape_.front(); }
  std::int64_t values_per_sample() const { return count() / samples(); }
  std::int64_t count() const;

  // The array [count] of values [first, first + count). REQUIRES: there are so many, and count > 0.
  StoredArray Part(std::int64_t first, std::int64_t count) const;

  // The bytes of values [first, ...). REQUIRES: `out` holds whole values that exist.
  // Throws Unreadable if the file has changed since it was opened, or cannot be read.
  void ReadBytes(std::int64_t first, std::span<std::uint8_t> out) const;
  // Integers below 2^63; floats must be whole numbers. Throws Error (usage) for other values, and
  // as ReadBytes does.
  void ReadIntegers(std::int64_t first, std::span<std::int64_t> out) const;
  // The bits of int32 values. REQUIRES: ReadIntegers finds such values. Throws as ReadBytes.
  void ReadWords(std::int64_t first, std::span<std::uint32_t> out) const;
  // Throws as ReadBytes.
  void ReadFloats(std::int64_t first, std::span<float> out) const;

  // "sample 3, value 17", or "value 17" for an array of one dimension.
  std::string Place(std::int64_t value) const;

 private:
  class Bytes;  // in memory, or of a file

  std::string path_;
  std::vector<std::int64_t> shape_;
  NumberType type_;
  std::shared_ptr<const Bytes> bytes_;
  std::int64_t first_ = 0;  // this array's first value in `bytes_`
};

// Opens a file of any of the formats, which it recognizes by content. NPY and uint8 IDX files stay
// on disk unless they are compressed with gzip; other files are read into memory. Throws Error
// (usage) as ReadArray does.
StoredArray OpenArray(const std::string& path);
// Whether the file begins with NPY's magic bytes.
bool BeginsAsNpy(InputFile& file);
// Opens a file of raw values, as numpy.ndarray.tofile writes it: an array [values]. A file that
// begins like gzip is not decompressed, because those bytes may be values, too.
StoredArray OpenRaw(const std::string& path, NumberType type);

}  // namespace acan
