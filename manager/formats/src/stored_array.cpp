#include "acan/manager/stored_array.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/ieee_mode.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/descriptor.h"
#include "acan/manager/unreadable.h"
#include "headers.h"

namespace acan {
namespace {

std::int64_t CountOf(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<std::uint8_t> ToBytes(const Array& array) {
  return std::visit(
      [](const auto& values) {
        std::vector<std::uint8_t> bytes(values.size() * sizeof(values[0]));
        std::memcpy(bytes.data(), values.data(), bytes.size());
        return bytes;
      },
      array.values);
}

StoredArray OpenNpy(InputFile& file) {
  NpyHeader header = ReadNpyHeader(file);
  if (!file.packed()) return {file, std::move(header.shape), header.type};
  std::vector<std::uint8_t> bytes = ReadRest(file, header.shape, BytesOf(header.type));
  return {file.path(), std::move(header.shape), header.type, std::move(bytes)};
}

// `Number` is the file's type. Sets `out[i] = made(value i)`.
template <typename Number, typename Out, typename Make>
void Convert(std::span<const std::uint8_t> bytes, std::span<Out> out, const Make& make) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Number value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    out[i] = make(value, i);
  }
}

template <typename Out, typename Make>
void ConvertAll(NumberType type, std::span<const std::uint8_t> bytes, std::span<Out> out,
                const Make& make) {
  switch (type) {
    case NumberType::kUint8:
      return Convert<std::uint8_t>(bytes, out, make);
    case NumberType::kUint16:
      return Convert<std::uint16_t>(bytes, out, make);
    case NumberType::kUint32:
      return Convert<std::uint32_t>(bytes, out, make);
    case NumberType::kUint64:
      return Convert<std::uint64_t>(bytes, out, make);
    case NumberType::kInt8:
      return Convert<std::int8_t>(bytes, out, make);
    case NumberType::kInt16:
      return Convert<std::int16_t>(bytes, out, make);
    case NumberType::kInt32:
      return Convert<std::int32_t>(bytes, out, make);
    case NumberType::kInt64:
      return Convert<std::int64_t>(bytes, out, make);
    case NumberType::kFloat32:
      return Convert<float>(bytes, out, make);
    case NumberType::kFloat64:
      return Convert<double>(bytes, out, make);
  }
}

}  // namespace

std::int64_t BytesOf(NumberType type) {
  switch (type) {
    case NumberType::kUint8:
    case NumberType::kInt8:
      return 1;
    case NumberType::kUint16:
    case NumberType::kInt16:
      return 2;
    case NumberType::kUint32:
    case NumberType::kInt32:
    case NumberType::kFloat32:
      return 4;
    case NumberType::kUint64:
    case NumberType::kInt64:
    case NumberType::kFloat64:
      return 8;
  }
  return 0;
}

bool IsInteger(NumberType type) {
  return type != NumberType::kFloat32 && type != NumberType::kFloat64;
}

class StoredArray::Bytes {
 public:
  explicit Bytes(std::vector<std::uint8_t> bytes) : memory_(std::move(bytes)), file_(-1) {}
  Bytes(const InputFile& file, std::int64_t offset)
      : path_(file.path()),
        file_(file.Duplicate()),
        offset_(offset),
        modified_(ModificationTime()) {}

  void Read(std::int64_t at, std::span<std::uint8_t> out) const {
    if (file_.get() < 0) {
      std::copy_n(memory_.begin() + at, out.size(), out.begin());
      return;
    }
    for (std::size_t done = 0; done < out.size();) {
      const ssize_t got = ::pread(file_.get(), out.data() + done, out.size() - done,
                                  offset_ + at + static_cast<std::int64_t>(done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) FailToRead(errno);
      if (got == 0) FailAsChanged("was truncated");
      done += static_cast<std::size_t>(got);
    }
    // Checked after the read, so that earlier changes are noticed: the hash would not be that of
    // the values used for training.
    const struct timespec now = ModificationTime();
    if (now.tv_sec != modified_.tv_sec || now.tv_nsec != modified_.tv_nsec) {
      FailAsChanged("was changed");
    }
  }

 private:
  struct timespec ModificationTime() const {
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0) FailToRead(errno);
    return status.st_mtim;
  }
  [[noreturn]] void FailToRead(int error) const {
    throw Unreadable(error, fmt::format("{}: cannot read: {}", path_, SystemErrorText(error)));
  }
  [[noreturn]] void FailAsChanged(const std::string& how) const {
    throw Unreadable(EAGAIN, fmt::format("{}: {} while it was in use", path_, how));
  }

  std::vector<std::uint8_t> memory_;
  std::string path_;
  Descriptor file_;  // negative: in memory
  std::int64_t offset_ = 0;
  struct timespec modified_ {};
};

StoredArray::StoredArray(std::string path, std::vector<std::int64_t> shape, NumberType type,
                         std::vector<std::uint8_t> bytes)
    : path_(std::move(path)),
      shape_(std::move(shape)),
      type_(type),
      bytes_(std::make_shared<Bytes>(std::move(bytes))) {}

StoredArray::StoredArray(const InputFile& file, std::vector<std::int64_t> shape, NumberType type)
    : path_(file.path()), shape_(std::move(shape)), type_(type) {
  assert(!file.packed());
  const std::int64_t offset = file.position();
  CheckLength(path_, shape_, BytesOf(type), file.most_bytes() - offset);
  bytes_ = std::make_shared<Bytes>(file, offset);
}

std::int64_t StoredArray::count() const {
  return CountOf(shape_);
}

StoredArray StoredArray::Part(std::int64_t first, std::int64_t count) const {
  assert(first >= 0 && count > 0 && first + count <= this->count());
  StoredArray part = *this;
  part.first_ += first;
  part.shape_ = {count};
  return part;
}

void StoredArray::ReadBytes(std::int64_t first, std::span<std::uint8_t> out) const {
  assert(first >= 0 && first + static_cast<std::int64_t>(out.size()) / BytesOf(type_) <= count());
  bytes_->Read((first_ + first) * BytesOf(type_), out);
}

void StoredArray::ReadIntegers(std::int64_t first, std::span<std::int64_t> out) const {
  std::vector<std::uint8_t> bytes(out.size() * static_cast<std::size_t>(BytesOf(type_)));
  ReadBytes(first, bytes);
  const auto whole = [&](auto value, std::size_t i) {
    if constexpr (std::is_floating_point_v<decltype(value)>) {
      // Above it, numbers of this type skip whole numbers, so this one may have been another.
      constexpr auto kMost =
          static_cast<double>(1LL << std::numeric_limits<decltype(value)>::digits);
      const auto wide = static_cast<double>(value);
      if (!(wide == std::floor(wide) && std::fabs(wide) < kMost)) {
        throw UsageError(
            fmt::format("{}: {} is {}, expected a whole number{}", path_,
                        Place(first + static_cast<std::int64_t>(i)), value,
                        std::fabs(wide) < kMost
                            ? ""
                            : fmt::format(" below {}, as its file has floats of {} bits; save it "
                                          "as integers",
                                          kMost, 8 * sizeof(value))));
      }
    }
    if constexpr (std::is_same_v<decltype(value), std::uint64_t>) {
      if (!std::in_range<std::int64_t>(value)) {
        throw UsageError(fmt::format("{}: {} is {}, expected an integer below 2^63", path_,
                                     Place(first + static_cast<std::int64_t>(i)), value));
      }
    }
    return static_cast<std::int64_t>(value);
  };
  ConvertAll(type_, bytes, out, whole);
}

void StoredArray::ReadWords(std::int64_t first, std::span<std::uint32_t> out) const {
  std::vector<std::uint8_t> bytes(out.size() * static_cast<std::size_t>(BytesOf(type_)));
  ReadBytes(first, bytes);
  ConvertAll(type_, bytes, out, [](auto value, std::size_t) {
    return static_cast<std::uint32_t>(static_cast<std::int64_t>(value));
  });
}

void StoredArray::ReadFloats(std::int64_t first, std::span<float> out) const {
  std::vector<std::uint8_t> bytes(out.size() * static_cast<std::size_t>(BytesOf(type_)));
  ReadBytes(first, bytes);
  const IeeeMode ieee;  // the same values in every process
  ConvertAll(type_, bytes, out, [](auto value, std::size_t) { return static_cast<float>(value); });
}

std::string StoredArray::Place(std::int64_t value) const {
  if (shape_.size() == 1) return fmt::format("value {}", value);
  return fmt::format("sample {}, value {}", value / values_per_sample(),
                     value % values_per_sample());
}

StoredArray OpenArray(const std::string& path) {
  InputFile file(path);
  const std::span<const std::uint8_t> start = file.Peek(3);
  if (!start.empty() && start[0] == 0x93) return OpenNpy(file);
  const bool idx = start.size() == 3 && start[0] == 0 && start[1] == 0;
  if (idx && start[2] == kIdxUint8 && !file.packed()) {
    IdxHeader header = ReadIdxHeader(file);
    return {file, std::move(header.shape), NumberType::kUint8};
  }
  Array array = ReadArray(path);
  return {path, array.shape, array.type(), ToBytes(array)};
}

bool BeginsAsNpy(InputFile& file) {
  constexpr std::uint8_t kNpy[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
  return std::ranges::equal(file.Peek(std::size(kNpy)), kNpy);
}

StoredArray OpenRaw(const std::string& path, NumberType type) {
  InputFile file(path, Packing::kNone);
  const std::int64_t bytes = file.most_bytes();
  if (bytes == 0) throw UsageError(fmt::format("{}: the file is empty", path));
  if (bytes % BytesOf(type) != 0) {
    throw UsageError(
        fmt::format("{}: has {} bytes, which is not a multiple of the {} bytes of a value", path,
                    bytes, BytesOf(type)));
  }
  if (BeginsAsNpy(file)) {
    throw UsageError(fmt::format(
        "{}: is NPY, which states the type of its values: leave data.tokens_type out", path));
  }
  return {file, {bytes / BytesOf(type)}, type};
}

}  // namespace acan
