// IDX, the format of MNIST: 0, 0, type, dimensions, then big-endian 32-bit sizes, then the values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <utility>

#include "acan/core/error.h"
#include "acan/manager/input_file.h"
#include "headers.h"

namespace acan {
namespace {

static_assert(std::endian::native == std::endian::little,
              "files are read and hashed as little-endian memory");

constexpr int kMaxIdxDimensions = 8;

struct IdxType {
  std::uint8_t code;
  NumberType type;
};
constexpr IdxType kIdxTypes[] = {{kIdxUint8, NumberType::kUint8}, {0x09, NumberType::kInt8},
                                 {0x0b, NumberType::kInt16},      {0x0c, NumberType::kInt32},
                                 {0x0d, NumberType::kFloat32},    {0x0e, NumberType::kFloat64}};

// Converts big-endian values of the file in place.
template <typename T>
void SwapBytes(std::vector<T>& values) {
  if constexpr (sizeof(T) == 1) return;
  auto* bytes = reinterpret_cast<std::uint8_t*>(values.data());
  for (std::size_t i = 0; i < values.size(); ++i, bytes += sizeof(T)) {
    std::reverse(bytes, bytes + sizeof(T));
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
  const auto* found = std::ranges::find(kIdxTypes, type, &IdxType::code);
  if (found == std::end(kIdxTypes)) {
    throw UsageError(
        fmt::format("{}: IDX value type 0x{:02x} (byte 2) is not supported; expected 0x08 (uint8), "
                    "0x09 (int8), 0x0b (int16), 0x0c (int32), 0x0d (float32) or 0x0e (float64)",
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
  return {found->type, std::move(shape)};
}

Array ReadIdx(InputFile& file) {
  const auto [type, shape] = ReadIdxHeader(file);
  Array array = ReadValues(file, shape, type);
  std::visit([](auto& values) { SwapBytes(values); }, array.values);
  return array;
}

}  // namespace acan
