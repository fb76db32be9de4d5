// InputFile: the bytes of a data file in order, with gzip content decompressed. Array: the values
// that such a file holds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace acan {

inline constexpr std::int64_t kMaxDataBytes = 1LL << 36;  // values of one file, decompressed
inline constexpr std::int64_t kMaxCsvBytes = 1LL << 32;   // text of one CSV file, decompressed

// kByContent: decompresses a file that begins with gzip's magic bytes. kNone: any bytes may be
// values.
enum class Packing { kByContent, kNone };

class InputFile {
 public:
  // Throws Unreadable if the system cannot open the file or tell its size, and Error (usage) if it
  // is not a regular file.
  explicit InputFile(const std::string& path, Packing packing = Packing::kByContent);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  bool packed() const { return gzip_ != nullptr; }
  // The number of bytes consumed; for a gzip file, of decompressed bytes.
  std::int64_t position() const { return position_; }
  // Another descriptor of the same file; the caller closes it. Throws Error (failure).
  int Duplicate() const;
  // An upper bound on the decompressed size, known before reading, to check a header's claim.
  std::int64_t most_bytes() const;
  // The next bytes without consuming them; fewer than `bytes` only at the end of the file.
  std::span<const std::uint8_t> Peek(std::size_t bytes);
  // Reads the next bytes; fewer than asked for only at the end. Throws Error (usage) for damaged
  // gzip, Error (failure) if the system cannot read.
  std::size_t Read(std::span<std::uint8_t> out);

 private:
  struct Gzip;
  std::size_t ReadRaw(std::span<std::uint8_t> out);
  std::size_t Inflate(std::span<std::uint8_t> out);

  std::string path_;
  int descriptor_ = -1;
  std::int64_t file_bytes_ = 0;
  std::int64_t position_ = 0;
  std::vector<std::uint8_t> ahead_;  // read but not yet consumed
  std::unique_ptr<Gzip> gzip_;       // null: plain
};

// The types of values, in the order of Array::values.
enum class NumberType : std::uint8_t {
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat32,
  kFloat64,
};
// "uint8", "float32", ...
const char* Word(NumberType type);

// Values of a file in memory, row-major.
struct Array {
  std::string path;
  std::vector<std::int64_t> shape;  // [samples, ...]; the product is the number of values, > 0
  std::variant<std::vector<std::uint8_t>, std::vector<std::uint16_t>, std::vector<std::uint32_t>,
               std::vector<std::uint64_t>, std::vector<std::int8_t>, std::vector<std::int16_t>,
               std::vector<std::int32_t>, std::vector<std::int64_t>, std::vector<float>,
               std::vector<double>>
      values;

  NumberType type() const { return static_cast<NumberType>(values.index()); }

  std::int64_t samples() const { return shape.front(); }
  std::int64_t values_per_sample() const;
};

// "[60000, 28, 28]"
std::string ShapeText(const std::vector<std::int64_t>& shape);

// Reads the values that follow a header: exactly as many as `shape` says, up to the end of the
// file. Allocates nothing before it knows that the shape fits the limits and the file.
// Throws Error (usage) for empty shapes, too many values, and files that are too short or too long.
Array ReadValues(InputFile& file, const std::vector<std::int64_t>& shape, NumberType type);

// Parsers, one for each format. They throw Error (usage) as ReadArray does.
Array ReadIdx(InputFile& file);
Array ReadNpy(InputFile& file);
Array ReadCsv(InputFile& file);

// Reads a file of any of the formats, which it recognizes by content. Throws Error (usage) that
// names the file, the place in it, what was found and what is expected.
Array ReadArray(const std::string& path);
// The type of the values that ReadArray returns. It reads only the beginning of the file, so it
// does not find all mistakes. Throws Error (usage) as ReadArray does.
NumberType TypeOfArray(const std::string& path);
// n if the first line of a CSV file is exactly 0,1,...,n-1, which may be names of columns. 0 for
// other lines and formats, and for more columns than ReadCsv takes. Reads no more than that line,
// and keeps little of it in memory. Throws Error (usage) as ReadArray does.
std::int64_t NumberedColumns(const std::string& path);

}  // namespace acan
