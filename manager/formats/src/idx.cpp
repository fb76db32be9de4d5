// IDX, the format of MNIST: 0, 0, type, dimensions, then big-endian 32-bit sizes, then the values.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <utility>

#include "acan/core/error.h"
#include "acan/manager/input_file.h"
#include "headers.h"

namespace acan {
namespace {

static_assert(std::endian::native == std::endian::little,
              "files are read and hashed as little-endian memory");

constexpr int kMaxIdxDimensions = 8;

// Files hold big-endian words: turn them in place.
template <typename T>
void SwapBytes(std::vector<T>& values) {
  for (T& value : values) {
    value = std::bit_cast<T>(__builtin_bswap32(std::bit_cast<std::uint32_t>(value)));
  }
}

}  // namespace

IdxHeader ReadIdxHeader(InputFile& file) {
  std::array<std::uint8_t, 4> magic{};
  if (file.Read(magic) < magic.size()) {
    throw UsageError(fmt::format("{}: truncated: shorter than an IDX header", file.path()));
  }
  const std::uint8_t type = magic[2];
  const int dimensions = magic[3];
  if (type != kIdxUint8 && type != kIdxInt32 && type != kIdxFloat32) {
    throw UsageError(
        fmt::format("{}: IDX value type 0x{:02x} (byte 2) is not supported; expected "
                    "0x08 (uint8), 0x0c (int32) or 0x0d (float32)",
                    file.path(), type));
  }
  if (dimensions < 1 || dimensions > kMaxIdxDimensions) {
    throw UsageError(fmt::format("{}: IDX has {} dimensions (byte 3), expected 1 to {}",
                                 file.path(), dimensions, kMaxIdxDimensions));
  }
  std::vector<std::int64_t> shape;
  for (int i = 0; i < dimensions; ++i) {
    std::uint32_t size = 0;
    if (file.Read({reinterpret_cast<std::uint8_t*>(&size), sizeof size}) < sizeof size) {
      throw UsageError(fmt::format("{}: truncated: the IDX header ends before its {} dimensions",
                                   file.path(), dimensions));
    }
    shape.push_back(static_cast<std::int64_t>(__builtin_bswap32(size)));
  }
  return {type, std::move(shape)};
}

Array ReadIdx(InputFile& file) {
  const auto [type, shape] = ReadIdxHeader(file);
  if (type == kIdxUint8) return ReadValues(file, shape, std::vector<std::uint8_t>());
  if (type == kIdxInt32) {
    Array array = ReadValues(file, shape, std::vector<std::int32_t>());
    SwapBytes(std::get<std::vector<std::int32_t>>(array.values));
    return array;
  }
  Array array = ReadValues(file, shape, std::vector<float>());
  // A NaN that passes through a float register could change; whoever checks refuses it anyway.
  SwapBytes(std::get<std::vector<float>>(array.values));
  return array;
}

}  // namespace acan
