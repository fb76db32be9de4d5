// What stands before the values in NPY and IDX files, and how many bytes of values must follow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "acan/manager/input_file.h"

namespace acan {

struct NpyHeader {
  NumberType type = NumberType::kFloat32;
  std::vector<std::int64_t> shape;
};
// In C order and with at least one dimension. Throws Error (usage).
NpyHeader ReadNpyHeader(InputFile& file);

inline constexpr std::uint8_t kIdxUint8 = 0x08;
struct IdxHeader {
  NumberType type = NumberType::kUint8;
  std::vector<std::int64_t> shape;
};
// Throws Error (usage).
IdxHeader ReadIdxHeader(InputFile& file);

// The bytes of all values: they fit the limit of memory, and the file has as many, and no more.
// Throws Error (usage).
std::vector<std::uint8_t> ReadRest(InputFile& file, const std::vector<std::int64_t>& shape,
                                   std::int64_t value_bytes);

// For values that stay in the file, of which there are `has` bytes. Throws Error (usage) if the
// shape says something else.
void CheckLength(const std::string& path, const std::vector<std::int64_t>& shape,
                 std::int64_t value_bytes, std::int64_t has);

}  // namespace acan
