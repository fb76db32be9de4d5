#include "acan/manager/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <new>

#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/unreadable.h"
#include "headers.h"

namespace acan {

struct InputFile::Gzip {
  Gzip() : input(1 << 18) {
    // 16: only the gzip format.
    if (inflateInit2(&stream, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() { inflateEnd(&stream); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  z_stream stream{};
  std::vector<std::uint8_t> input;
  bool inside = true;  // within a gzip member
};

InputFile::InputFile(const std::string& path, Packing packing) : path_(path) {
  // O_NONBLOCK: opening a pipe must not wait for a writer, because the pipe is refused anyway.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    const int error = errno;
    throw Unreadable(error, fmt::format("{}: cannot open: {}", path, SystemErrorText(error)));
  }
  struct stat status {};
  const int error = ::fstat(descriptor_, &status) == 0 ? 0 : errno;
  if (error != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    if (error != 0) {
      throw Unreadable(error, fmt::format("{}: cannot read: {}", path, SystemErrorText(error)));
    }
    throw UsageError(fmt::format("{}: is a directory or device, expected a data file", path));
  }
  file_bytes_ = status.st_size;
  if (packing == Packing::kNone) return;
  try {
    ahead_.resize(2);
    ahead_.resize(ReadRaw(ahead_));
    if (ahead_.size() == 2 && ahead_[0] == 0x1f && ahead_[1] == 0x8b) {
      gzip_ = std::make_unique<Gzip>();
      std::copy(ahead_.begin(), ahead_.end(), gzip_->input.begin());
      gzip_->stream.next_in = gzip_->input.data();
      gzip_->stream.avail_in = 2;
      ahead_.clear();
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

std::int64_t InputFile::most_bytes() const {
  // Deflate compresses at most 1032 bytes into one.
  constexpr std::int64_t kMaxRatio = 1032;
  if (!gzip_) return file_bytes_;
  return file_bytes_ > kMaxDataBytes / kMaxRatio ? kMaxDataBytes : file_bytes_ * kMaxRatio;
}

int InputFile::Duplicate() const {
  const int descriptor = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) {
    throw FailureError(fmt::format("{}: cannot open: {}", path_, SystemErrorText(errno)));
  }
  return descriptor;
}

std::size_t InputFile::ReadRaw(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::read(descriptor_, out.data() + done, out.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw FailureError(fmt::format("{}: cannot read: {}", path_, SystemErrorText(errno)));
    }
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::size_t InputFile::Inflate(std::span<std::uint8_t> out) {
  Gzip& gzip = *gzip_;
  z_stream& stream = gzip.stream;
  std::size_t done = 0;
  while (done < out.size()) {
    if (stream.avail_in == 0) {
      stream.avail_in = static_cast<uInt>(ReadRaw(gzip.input));
      stream.next_in = gzip.input.data();
      if (stream.avail_in == 0) {
        if (!gzip.inside) break;
        throw UsageError(fmt::format("{}: truncated: the gzip data ends early, after {} bytes",
                                     path_, file_bytes_));
      }
    }
    if (!gzip.inside) {
      // Some programs pad gzip files with zeros. Nothing else may follow them but a member.
      while (stream.avail_in > 0 && *stream.next_in == 0) ++stream.next_in, --stream.avail_in;
      if (stream.avail_in == 0) continue;
      inflateReset(&stream);
      gzip.inside = true;
    }
    const std::size_t room = std::min<std::size_t>(out.size() - done, 1U << 30);
    stream.next_out = out.data() + done;
    stream.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream, Z_NO_FLUSH);
    done += room - stream.avail_out;
    if (result == Z_STREAM_END) {
      gzip.inside = false;
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw UsageError(fmt::format("{}: damaged gzip data: {}", path_,
                                   stream.msg != nullptr ? stream.msg : "not understood"));
    }
  }
  return done;
}

std::span<const std::uint8_t> InputFile::Peek(std::size_t bytes) {
  if (ahead_.size() < bytes) {
    const std::size_t had = ahead_.size();
    ahead_.resize(bytes);
    const std::span<std::uint8_t> rest = std::span(ahead_).subspan(had);
    const std::size_t got = gzip_ ? Inflate(rest) : ReadRaw(rest);
    ahead_.resize(had + got);
  }
  return std::span(ahead_).first(std::min(bytes, ahead_.size()));
}

std::size_t InputFile::Read(std::span<std::uint8_t> out) {
  const std::size_t had = std::min(out.size(), ahead_.size());
  std::copy_n(ahead_.begin(), had, out.begin());
  ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(had));
  const std::span<std::uint8_t> rest = out.subspan(had);
  std::size_t got = had;
  if (!rest.empty()) got += gzip_ ? Inflate(rest) : ReadRaw(rest);
  position_ += static_cast<std::int64_t>(got);
  return got;
}

std::int64_t Array::values_per_sample() const {
  std::int64_t count = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) count *= shape[i];
  return count;
}

std::string ShapeText(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

namespace {

std::int64_t CountValues(const std::string& path, const std::vector<std::int64_t>& shape,
                         std::int64_t value_bytes, std::int64_t most_bytes) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size <= 0) {
      throw UsageError(fmt::format("{}: has shape {}: no values; at least one sample is needed",
                                   path, ShapeText(shape)));
    }
    if (size > most_bytes / value_bytes / count) {
      throw UsageError(fmt::format("{}: has shape {}: more than the limit of {} bytes of values",
                                   path, ShapeText(shape), most_bytes));
    }
    count *= size;
  }
  return count;
}

Error Truncated(const std::string& path, const std::vector<std::int64_t>& shape,
                std::int64_t wanted, const std::string& found) {
  return UsageError(
      fmt::format("{}: truncated: its header says shape {} ({} bytes of values), the file has {}",
                  path, ShapeText(shape), wanted, found));
}

Error TooLong(const std::string& path, const std::vector<std::int64_t>& shape,
              std::int64_t wanted) {
  return UsageError(
      fmt::format("{}: is longer than its header says: shape {} is {} bytes of values", path,
                  ShapeText(shape), wanted));
}

// `room` returns memory for the values, and is called once their number is known to be right.
void ReadRestInto(InputFile& file, const std::vector<std::int64_t>& shape, std::int64_t value_bytes,
                  const std::function<void*(std::size_t count)>& room) {
  const std::int64_t count = CountValues(file.path(), shape, value_bytes, kMaxDataBytes);
  const std::int64_t wanted = count * value_bytes;
  if (wanted > file.most_bytes()) {
    throw Truncated(file.path(), shape, wanted, fmt::format("at most {}", file.most_bytes()));
  }
  auto* out = static_cast<std::uint8_t*>(room(static_cast<std::size_t>(count)));
  const std::size_t got = file.Read({out, static_cast<std::size_t>(wanted)});
  if (got < static_cast<std::size_t>(wanted)) {
    throw Truncated(file.path(), shape, wanted, fmt::format("{}", got));
  }
  // Reading to the end also checks gzip's checksum.
  std::uint8_t more = 0;
  if (file.Read({&more, 1}) != 0) throw TooLong(file.path(), shape, wanted);
}

}  // namespace

std::vector<std::uint8_t> ReadRest(InputFile& file, const std::vector<std::int64_t>& shape,
                                   std::int64_t value_bytes) {
  std::vector<std::uint8_t> bytes;
  ReadRestInto(file, shape, value_bytes, [&](std::size_t count) {
    bytes.resize(count * static_cast<std::size_t>(value_bytes));
    return bytes.data();
  });
  return bytes;
}

void CheckLength(const std::string& path, const std::vector<std::int64_t>& shape,
                 std::int64_t value_bytes, std::int64_t has) {
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 62;
  const std::int64_t wanted = CountValues(path, shape, value_bytes, kMaxBytes) * value_bytes;
  if (wanted > has) throw Truncated(path, shape, wanted, fmt::format("{}", has));
  if (wanted < has) throw TooLong(path, shape, wanted);
}

namespace {

// An empty vector of the type.
decltype(Array::values) ValuesOf(NumberType type) {
  switch (type) {
    case NumberType::kUint8:
      return std::vector<std::uint8_t>();
    case NumberType::kUint16:
      return std::vector<std::uint16_t>();
    case NumberType::kUint32:
      return std::vector<std::uint32_t>();
    case NumberType::kUint64:
      return std::vector<std::uint64_t>();
    case NumberType::kInt8:
      return std::vector<std::int8_t>();
    case NumberType::kInt16:
      return std::vector<std::int16_t>();
    case NumberType::kInt32:
      return std::vector<std::int32_t>();
    case NumberType::kInt64:
      return std::vector<std::int64_t>();
    case NumberType::kFloat32:
      return std::vector<float>();
    case NumberType::kFloat64:
      return std::vector<double>();
  }
  return {};
}

}  // namespace

Array ReadValues(InputFile& file, const std::vector<std::int64_t>& shape, NumberType type) {
  Array array{file.path(), shape, ValuesOf(type)};
  std::visit(
      [&](auto& values) {
        ReadRestInto(file, shape, sizeof(values[0]), [&](std::size_t count) {
          values.resize(count);
          return values.data();
        });
      },
      array.values);
  return array;
}

const char* Word(NumberType type) {
  switch (type) {
    case NumberType::kUint8:
      return "uint8";
    case NumberType::kUint16:
      return "uint16";
    case NumberType::kUint32:
      return "uint32";
    case NumberType::kUint64:
      return "uint64";
    case NumberType::kInt8:
      return "int8";
    case NumberType::kInt16:
      return "int16";
    case NumberType::kInt32:
      return "int32";
    case NumberType::kInt64:
      return "int64";
    case NumberType::kFloat32:
      return "float32";
    case NumberType::kFloat64:
      return "float64";
  }
  return "";
}

namespace {

enum class Format : std::uint8_t { kIdx, kNpy, kCsv };

void RefusePictures(const std::string& path, std::span<const std::uint8_t> start) {
  constexpr std::uint8_t kPng[] = {0x89, 'P', 'N', 'G'};
  constexpr std::uint8_t kJpeg[] = {0xff, 0xd8, 0xff};
  const auto begins = [start](std::span<const std::uint8_t> magic) {
    return start.size() >= magic.size() && std::ranges::equal(start.first(magic.size()), magic);
  };
  const char* picture = begins(kPng) ? "PNG" : begins(kJpeg) ? "JPEG" : nullptr;
  if (picture == nullptr) return;
  throw UsageError(fmt::format(
      "{}: is not IDX, NPY or CSV, but a {} picture: convert all pictures to one NPY or "
      "IDX file; docs/models.md shows how",
      path, picture));
}

Format FormatOf(InputFile& file) {
  constexpr std::size_t kTextProbe = 512;
  const std::span<const std::uint8_t> start = file.Peek(kTextProbe);
  if (start.empty()) throw UsageError(fmt::format("{}: the file is empty", file.path()));
  if (start.size() >= 2 && start[0] == 0 && start[1] == 0) return Format::kIdx;
  if (start[0] == 0x93) return Format::kNpy;
  RefusePictures(file.path(), start);
  const auto is_text = [](std::uint8_t c) { return c >= 0x20 || (c >= '\t' && c <= '\r'); };
  if (std::all_of(start.begin(), start.end(), is_text)) return Format::kCsv;
  throw UsageError(
      fmt::format("{}: is not IDX, NPY or CSV: it begins with the bytes {:02x}", file.path(),
                  fmt::join(start.first(std::min<std::size_t>(start.size(), 8)), " ")));
}

}  // namespace

Array ReadArray(const std::string& path) {
  InputFile file(path);
  switch (FormatOf(file)) {
    case Format::kIdx:
      return ReadIdx(file);
    case Format::kNpy:
      return ReadNpy(file);
    case Format::kCsv:
      break;
  }
  return ReadCsv(file);
}

NumberType TypeOfArray(const std::string& path) {
  InputFile file(path);
  switch (FormatOf(file)) {
    case Format::kIdx:
      return ReadIdxHeader(file).type;
    case Format::kNpy:
      return ReadNpyHeader(file).type;
    case Format::kCsv:
      break;
  }
  return NumberType::kFloat32;
}

std::int64_t NumberedColumns(const std::string& path) {
  InputFile file(path);
  return FormatOf(file) == Format::kCsv ? NumberedColumnsOfCsv(file) : 0;
}

}  // namespace acan
