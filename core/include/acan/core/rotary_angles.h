// The tables of kRotary (operators.inc): cosines and sines of the angles of rotary positions. The
// manager makes them, because some devices lack doubles and all handlers must read the same bits.
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace acan {

// Row-major [positions, head_size / 2].
struct RotaryTables {
  std::vector<float> cosine;
  std::vector<float> sine;
};

inline constexpr std::int64_t kMaxRotaryPositions = std::int64_t{1} << 20;

// The number of positions, at least 1, whose angles are small enough for MakeRotaryTables. With a
// base below 1, an angle is larger than its position. REQUIRES: as MakeRotaryTables.
std::int64_t MostRotaryPositions(std::int64_t head_size, double base);

// The angle of the position p and the pair i is p x base^(-2i / head_size), computed in double;
// its cosine and sine are rounded once. REQUIRES: head_size is even and above 0, base > 0,
// 0 <= first, first + positions <= MostRotaryPositions. Row 0 is the position `first`.
RotaryTables MakeRotaryTables(std::int64_t first, std::int64_t positions, std::int64_t head_size,
                              double base);

}  // namespace acan
