// The headers of NPY and IDX files, and checks of the length of the values that follow.
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
// In C order and with at least one dimension. Throws Error (usage) for other files.
NpyHeader ReadNpyHeader(InputFile& file);

inline constexpr std::uint8_t kIdxUint8 = 0x08;
struct IdxHeader {
  NumberType type = NumberType::kUint8;
  std::vector<std::int64_t> shape;
};
// Throws Error (usage).
IdxHeader ReadIdxHeader(InputFile& file);

// NumberedColumns of a CSV file.
std::int64_t NumberedColumnsOfCsv(InputFile& file);

// The bytes of all values. Checks that they fit into the memory limit and that the file has exactly
// as many. Throws Error (usage).
std::vector<std::uint8_t> ReadRest(InputFile& file, const std::vector<std::int64_t>& shape,
                                   std::int64_t value_bytes);

// For values that stay in the file, which has `has` bytes of values. Throws Error (usage) if the
// shape needs a different number.
void CheckLength(const std::string& path, const std::vector<std::int64_t>& shape,
                 std::int64_t value_bytes, std::int64_t has);

}  // namespace acan
